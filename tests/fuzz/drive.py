"""One process of the coverage-guided fuzzer: mutates the cases of one target until its time is over.

Run as `python -m fuzz.drive TARGET FOLDER SECONDS`. FOLDER has `cases`, which grow by every case that reaches new code,
and gets `violations`: for each the smallest case that breaks the rule, and what happened beside it.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import hashlib
import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

if TYPE_CHECKING:
    from fuzz.targets import Target

MOST_BYTES = 16_384
LIMIT_S = 60
"""Wall-clock time after which the process is ended: code that is not Python's hangs."""
LIMIT_MIB = 4096
LAST = "last"
"""The file of the case that runs: where the process dies without a word, it is the culprit."""


def main(name: str, folder: Path, seconds: int) -> None:
    """Fuzz a target; libFuzzer ends the process when the time is over."""
    from fuzz import targets

    # Until the process ends: requests import the modules that answer them when they are asked.
    with atheris.instrument_imports(include=targets.instrumented(name)):
        _fuzz(targets.target(name), folder, seconds)


def _fuzz(target: Target, folder: Path, seconds: int) -> None:
    from fuzz.watch import Violation, judge

    cases, violations = folder / "cases", folder / "violations"
    smallest: dict[str, int] = {}
    last = folder / LAST

    def keep(content: bytes, found: Violation) -> None:
        if len(content) < smallest.get(found.key, sys.maxsize):
            smallest[found.key] = len(content)
            path = violations / hashlib.sha256(found.key.encode()).hexdigest()[:12]
            path.write_bytes(content)
            path.with_suffix(".json").write_text(json.dumps(dataclasses.asdict(found)))

    def one(content: bytes) -> None:
        last.write_bytes(content)
        found = judge(target.check, content)
        if found is not None:
            keep(content, found)

    def mutated(content: bytes, most_bytes: int, seed: int) -> bytes:
        return target.changed(content, random.Random(seed), most_bytes) or atheris.Mutate(content, most_bytes)

    limits = [
        f"-max_total_time={seconds}",
        f"-timeout={LIMIT_S}",
        f"-report_slow_units={LIMIT_S}",  # which a busy machine makes; the watch judges by processor time
        f"-rss_limit_mb={LIMIT_MIB}",
        f"-max_len={MOST_BYTES}",
        "-handle_segv=0",  # Python's own handler tells where
    ]
    faulthandler.enable()
    options = [*limits, f"-artifact_prefix={violations}/"]
    judge(target.check, b"")  # imports what the first case needs, which takes a busy machine longer than a case may
    atheris.Setup([sys.argv[0], *options, str(cases)], one, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
