"""`make fuzz`: every target for its share of the time on two cores, and then what was run, reached and found.

Run as `python -m fuzz --minutes 10`. The cases that reached new code stay under `build/fuzz` for the next run. The exit
status is 1 where a rule was broken.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import hashlib
import re
import subprocess
import sys
import time
from pathlib import Path

from fuzz import targets
from fuzz.corpus import CORPUS

CORES = 2
MINIMISE_S = 10
ARTIFACTS = ("crash-", "timeout-", "oom-", "leak-")
"""What libFuzzer calls the file of a case with which the process ended, where it can still write one."""
DEATH = "ended-"
ENDED = re.compile(r"(?:ERROR|SUMMARY): libFuzzer: .*|^  File .*", re.MULTILINE)
"""What is said of the end of a process: by libFuzzer, or by Python, whose first line is the innermost call."""
WAITED = "timeout"
"""What libFuzzer says of a case that took `drive.LIMIT_S` by the clock; the watch judges by processor time."""
SLOW = "slow-unit-"
"""What libFuzzer calls the file of a case that took as long and came to its end."""
GONE = "it does not happen again"
LAST = "last"
"""The file in which the fuzzer keeps the case that runs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the runs of one target came to.

    Attributes:
        num_cases: cases run.
        num_reached: branches of the instrumented modules that the cases reached.
        num_kept: cases that reached something new, those of earlier runs included.
        violations: for each the file of its smallest case, and what happened.
        num_waits: times that the machine let a case wait for so long that the fuzzer ended; the case itself is fast.
    """

    target: str
    num_cases: int
    num_reached: int
    num_kept: int
    violations: dict[Path, str]
    num_waits: int = 0


def fuzz(name: str, folder: Path, seconds: float) -> Outcome:
    """Fuzz a target in processes of its own: a case that ends the process is a violation, and the next goes on."""
    cases, violations = folder / "cases", folder / "violations"
    for path in (cases, violations):
        path.mkdir(parents=True, exist_ok=True)
    for old in violations.iterdir():
        old.unlink()
    for number, seed in enumerate(_seeds(name)):
        (cases / f"seed-{number}").write_bytes(seed)
    end, num_cases, num_reached = time.monotonic() + seconds, 0, 0
    ends: dict[Path, str] = {}
    while (left := int(end - time.monotonic())) > 0:
        command = [sys.executable, "-m", "fuzz.drive", name, str(folder), str(left)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        num_cases += max(map(int, re.findall(r"^#(\d+)\t", done.stderr, re.MULTILINE)), default=0)
        num_reached = max(num_reached, *map(int, re.findall(r" cov: (\d+)", done.stderr)), 0)
        if done.returncode == 0:
            break
        if num_cases == 0:
            raise RuntimeError(f"the fuzzer of {name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        culprit = (folder / LAST).read_bytes()
        path = violations / f"{DEATH}{hashlib.sha256(culprit).hexdigest()[:12]}"
        path.write_bytes(culprit)
        ends[path] = next(iter(ENDED.findall(done.stderr)), f"status {done.returncode}")
        for path in violations.iterdir():
            if path.name.startswith(ARTIFACTS):
                path.unlink()
    found = {path: _minimised(name, path) for path in sorted(violations.iterdir()) if path.suffix != ".json"}
    waited = [path for path in found if path.name.startswith(SLOW) or WAITED in ends.get(path, "")]
    waits = [path for path in waited if found[path].startswith(GONE)]
    for path in waits:
        del found[path]
    found = {path: f"{said} ({ends[path]})" if path in ends else said for path, said in found.items()}
    return Outcome(
        target=name,
        num_cases=num_cases,
        num_reached=num_reached,
        num_kept=len(list(cases.iterdir())),
        violations=found,
        num_waits=len(waits),
    )


def _seeds(name: str) -> list[bytes]:
    """The target's own seeds, made by a process that imports what they need, and the findings of before."""
    command = [sys.executable, "-m", "fuzz.targets", name]
    made = subprocess.run(command, capture_output=True, check=True).stdout
    known = [path.read_bytes() for path in sorted((CORPUS / name).glob("*")) if path.is_file()]
    return [*map(bytes.fromhex, made.decode().split()), *known]


def _minimised(name: str, path: Path) -> str:
    """Make the case of a violation smaller, in its file; returns what happened."""
    path.with_suffix(".json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "fuzz.minimise", name, str(path), str(MINIMISE_S)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or f"{GONE}: {done.stderr[-300:]}"


def main() -> int:
    """Share the minutes among the targets, two at a time, and print what came of it."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("targets", nargs="*", default=targets.names())
    given = parser.parse_args()
    seconds = given.minutes * 60 * CORES / len(given.targets)
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        outcomes = list(pool.map(lambda name: fuzz(name, given.folder / name, seconds), given.targets))
    print(f"{'target':10} {'cases run':>10} {'branches reached':>17} {'cases kept':>11} {'violations':>11}")
    for found in outcomes:
        figures = f"{found.num_cases:10,} {found.num_reached:17,} {found.num_kept:11,} {len(found.violations):11}"
        print(f"{found.target:10} {figures}")
    for found in outcomes:
        for path, said in found.violations.items():
            print(f"\n{found.target}: {path} ({path.stat().st_size} bytes)\n  {said}")
    num = sum(len(found.violations) for found in outcomes)
    waits = sum(found.num_waits for found in outcomes)
    told = f"; the machine let {waits} cases wait for a minute" if waits else ""
    print(f"\n{sum(found.num_cases for found in outcomes):,} cases, {num} violations{told}")
    return int(num > 0)


if __name__ == "__main__":
    sys.exit(main())
