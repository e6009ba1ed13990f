"""Write the tables of published experiments anew from their stored records, as today's statistics read them.

    python benchmarks/published_tables.py

`results/versions/table.md` has a table for each model and variant, with the releases of ONNX Runtime as rows;
`results/reference/load.md` one for each model, with the runtimes that serve it. What stands above and between the
tables stays, such as what MLPerf's load generator said when they were measured.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BENCH = (sys.executable, "-c", "from bench.cli import main; main.main()")
OLDEST = "1.20.0"
"""The release that the others are compared with."""
COLUMNS = "cell,latency_p50_ns,ratio,verdict,max_abs_error,metric,fidelity,peak_rss_bytes"
LOAD = "results/load/amd-epyc-2c-24g-c21b2c9c"


def shown(*arguments: str) -> str:
    """The tables that `bench show` prints, without the sentences around them."""
    command = [*BENCH, "show", *arguments, "--format", "md"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def rows(text: str) -> str:
    """The last table of a text."""
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return str(tables[-1])


def of_versions(title: str) -> str:
    """The table under a heading such as `crnn, int8_dynamic`."""
    task, _, variant = title.partition(", ")
    cell = f"{task}/torch/torch_onnx/{variant or 'raw'}/onnxruntime@{{}}/cpu/b1t1"
    given = (cell.format("*"), "--results", "results/versions", "--baseline", cell.format(OLDEST))
    return rows(shown(*given, "--columns", COLUMNS))


def of_load(task: str) -> str:
    """The table of a model's services."""
    return rows(shown(f"{task}/*", "--sweep", "load", "--results", LOAD))


def main() -> None:
    """Replace the last table under each heading of both pages."""
    for page, made in (("results/versions/table.md", of_versions), ("results/reference/load.md", of_load)):
        path = ROOT / page
        parts = re.split(r"(?m)^(## .*)$", path.read_text(encoding="utf-8"))
        for number in range(1, len(parts), 2):
            body = parts[number + 1]
            parts[number + 1] = body.replace(rows(body), made(parts[number].removeprefix("## ")))
        path.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
