"""Without the folder of a feature everything else works: each is removed in turn from a clone, and its tests pass.

A clone of the last commit loses the folder of one feature of `bench/features` and its tests; then the rest of the tests
run there, but for those of the documents, which hold the pages to all commands. What passed at this commit is kept in
the folder, and the same command goes on. A feature takes as long as `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import instrument

ROOT = Path(__file__).parents[1]
CHOSEN = "not thorough and not timing"
LEFT_OUT = ("docs",)
"""Folders of tests that need all features."""


def features() -> list[str]:
    """The names of all features."""
    return sorted(path.parent.name for path in (ROOT / "bench" / "features").glob("*/__init__.py"))


def without(name: str, folder: Path, tests: list[str]) -> tuple[int, str]:
    """Run the tests without a feature; returns pytest's exit status and its last line."""
    clone = folder / f"without-{name}"
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True)
    for place in (clone / "bench" / "features" / name, clone / "tests" / "features" / name):
        shutil.rmtree(place, ignore_errors=True)
    chosen = tests or sorted(
        str(path.relative_to(clone))
        for path in (clone / "tests").iterdir()
        if path.is_dir() and path.name not in (*LEFT_OUT, "support", "data") and list(path.rglob("test_*.py"))
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", CHOSEN, "-n", "2"]
    command += ["--dist", "loadgroup", "--no-loadscope-reorder", *chosen]
    environment = {**os.environ, "PYTHONPATH": str(clone), "SESSION_CACHE": str(ROOT / ".cache" / "tests")}
    environment.pop("BENCH_PATH", None)  # `instrument` sets it to plugins of the benchmarks
    ran = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    (folder / f"{name}.txt").write_text(ran.stdout + ran.stderr)
    if ran.returncode == 0:
        shutil.rmtree(clone)
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return ran.returncode, "; ".join([*failed[:5], *lines[-1:]])


def main() -> None:
    """Run the tests without each feature and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the clones and of what is done")
    parser.add_argument("--only", nargs="*", help="features to remove; all by default")
    parser.add_argument("--tests", nargs="*", default=[], help="folders of tests to run; all but those of the docs")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    kept = folder / f"{commit.stdout.strip()[:12]}.json"
    passed = json.loads(kept.read_text()) if kept.exists() else {}
    failures = []
    for name in arguments.only or features():
        key = " ".join([name, *arguments.tests])
        said = passed.get(key)
        if said is None:
            begin = time.monotonic()
            status, said = without(name, folder, arguments.tests)
            said += f" ({time.monotonic() - begin:.0f} s)"
            if status:
                failures.append(f"without {name}: {said}")
            else:
                passed[key] = said
                kept.write_text(json.dumps(passed, indent=1))
        print(f"without {name}: {said}", flush=True)
    instrument.finish(failures)


if __name__ == "__main__":
    main()
