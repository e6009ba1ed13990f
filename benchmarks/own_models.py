"""Does every model of one's own end in a decision, and does the deployment that is saved run?

For each of the twenty models of `own_model_files.py`, in a folder and with a cache of its own, it types what the
quickstart says: `bench run --model FILE` and `bench pick NAME`. A pick that ends in `winner` or `keep` has saved a
deployment: its `run.py` is run as a program, and its `predict` is given inputs whose outputs are known from the
framework that made the model. Where the pick ends in `none`, the commands that it prints are followed until there is a
decision: first the launches that it names, then the tolerance.

FOLDER keeps what became of each model, and a model that is over is not tried again.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import instrument
import sweeps
from own_model_files import EXPECTED, FEEDS, KINDS, MADE

MAKER = Path(__file__).with_name("own_model_files.py")
PREDICTED = Path(__file__).with_name("peers") / "predicted.py"
DECISIONS = ("winner", "keep")
MOST_ERROR = 0.05
"""Largest share of the signal by which a deployment's outputs may differ: an int8 model that keeps 99 % of a metric may
differ by some per cent, and a deployment of another model differs by about 1."""
MOST_STEPS = 3
"""Most commands that are followed from a `none`."""
LIMIT_S = 600
PATIENCE_S, PAUSE_S = 600, 10
"""How long a command is tried while another `bench` has the machine, and the pause between."""
LOCKED = "another `bench` prepares or measures on this machine"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of one model.

    Attributes:
        name: of the model.
        run_said: the outcome in the last line of `bench run`.
        outcome: that of `bench pick`: `winner`, `keep` or `none`; empty where it has none.
        followed: the commands that a `none` named and that were followed, the last of which led to a decision.
        decision: the outcome in the end; that of the pick where it is a decision.
        cell: what is shipped; empty without a decision.
        run_s, pick_s: how long `bench run` and the first `bench pick` took.
        error: share of the signal by which the outputs of `predict` differ from the model's; None where they are not
            known.
        fault: why this is no decision, or why the deployment does not run; empty where all is well.
    """

    name: str
    run_said: str
    outcome: str
    followed: tuple[str, ...]
    decision: str
    cell: str
    run_s: float
    pick_s: float
    error: float | None
    fault: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shell:
    """The shell of a user in a folder, who has a cache of their own; what is typed there is kept in a log."""

    folder: Path

    def type(self, command: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], float]:
        """Run a command, again after a pause where another `bench` measured; returns it with the seconds that it took.

        After `PATIENCE_S` the command ends as it did.
        """
        end = time.monotonic() + PATIENCE_S
        done, taken_s = self._once(command)
        while done.returncode != 0 and LOCKED in done.stderr and time.monotonic() + PAUSE_S < end:
            time.sleep(PAUSE_S)
            done, taken_s = self._once(command)
        return done, taken_s

    def _once(self, command: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], float]:
        program = [str(sweeps.BENCH), *command[1:]] if command[0] == "bench" else list(command)
        environment = {**os.environ, "BENCH_CACHE": str(self.folder / "cache"), "BENCH_PATH": ""}
        begin = time.monotonic()
        try:
            done = subprocess.run(
                program, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(program, 124, "", f"no answer within {LIMIT_S} s\n")
        taken_s = time.monotonic() - begin
        with (self.folder / "log.txt").open("a") as log:
            log.write(f"$ {shlex.join(command)}\n{done.stdout}{done.stderr}[exit {done.returncode}, {taken_s:.1f} s]\n")
        return done, taken_s


def outcome_of(printed: str) -> str:
    """The outcome that a line of a command begins with, the last of several; empty where there is none."""
    first = [line.removeprefix("bench: ").partition(":")[0] for line in printed.splitlines() if ":" in line]
    return next((word for word in reversed(first) if word in (*DECISIONS, "none")), "")


def advised(printed: str) -> list[list[str]]:
    """The commands that a pick names below a `none`, those that measure first."""
    lines = printed.splitlines() if outcome_of(printed) == "none" else []
    commands = [shlex.split(line) for line in lines if line.startswith("    bench ")]
    return sorted(commands, key=lambda command: command[1] != "run")


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of the errors of a command, or else of what it printed."""
    return ([*done.stdout.splitlines(), *done.stderr.splitlines()] or ["nothing was printed"])[-1]


def tried(name: str, folder: Path) -> Tried:
    """Make a model, run and pick, and follow what a pick without a decision says."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, str(MAKER), name, str(folder)], check=True, capture_output=True)
    shell, made = Shell(folder=folder), json.loads((folder / MADE).read_text())
    ran, run_s = shell.type(["bench", "run", "--model", made["file"], *made["options"]])
    pick = ["bench", "pick", name]
    picked, pick_s = shell.type(pick)
    said, outcome = outcome_of(ran.stderr), outcome_of(picked.stdout)
    followed: list[str] = []
    last = picked
    while outcome_of(last.stdout) == "none" and len(followed) < MOST_STEPS:
        steps = [step for step in advised(last.stdout) if shlex.join(step) not in followed]
        if not steps:
            break
        step = steps[-1 if followed else 0]  # the launches that it names, once, and then the tolerance
        followed.append(shlex.join(step))
        last, _ = shell.type(step)
        last = last if step[1] == "pick" else shell.type(pick)[0]
    decision, cell, error, fault = outcome_of(last.stdout), "", None, ""
    if decision in DECISIONS:
        cell, error, fault = run_deployment(shell, folder / "results" / "picks" / name)
    elif decision == "none":
        fault = "none of the commands that it names leads to a decision" if followed else "it names no command"
    else:
        fault = f"no outcome: {last_line(ran if ran.returncode not in (0, 1) else picked)}"
    if not fault and said != outcome:
        fault = f"`bench run` ended in {said or 'no outcome'}, and `bench pick` in {outcome}"
    return Tried(
        name=name,
        run_said=said,
        outcome=outcome,
        followed=tuple(followed),
        decision=decision if decision in DECISIONS else "",
        cell=cell,
        run_s=run_s,
        pick_s=pick_s,
        error=error,
        fault=fault,
    )


def run_deployment(shell: Shell, saved: Path) -> tuple[str, float | None, str]:
    """Run a saved deployment as a program, and its `predict` on inputs of known outputs.

    Returns:
        The cell, the share of the signal by which the outputs differ, and what is wrong; empty where nothing is.
    """
    recipe = json.loads((saved / "deployment.json").read_text())
    cell = recipe["cell"].partition("/")[2]
    program, _ = shell.type([sys.executable, str(saved / "run.py")])
    if program.returncode != 0:
        return cell, None, f"run.py: {last_line(program)}"
    arrays = [str(shell.folder / FEEDS), str(shell.folder / EXPECTED)]
    predicted, _ = shell.type([sys.executable, str(PREDICTED), str(saved), *arrays])
    if predicted.returncode != 0:
        return cell, None, f"predict: {last_line(predicted)}"
    error = float(predicted.stdout.split()[-1])
    return cell, error, "" if error <= MOST_ERROR else f"its outputs differ by {100 * error:.2g} % of the signal"


def table(found: Sequence[Tried]) -> str:
    """A row for each model, as Markdown."""
    lines = [
        "| model | what it is | run, s | pick | decision | deployment | outputs differ by |",
        "| --- | --- | --: | --- | --- | --- | --: |",
    ]
    for model in found:
        way = f" after `{shortened(model.followed[-1])}`" if model.followed else ""
        decision = f"{model.decision}{way}" if model.decision else model.fault
        error = "" if model.error is None else f"{100 * model.error:.2g} %"
        fault = f" ({model.fault})" if model.fault and model.decision else ""
        cells = (
            model.name,
            KINDS[model.name],
            f"{model.run_s:.0f}",
            model.outcome,
            decision + fault,
            model.cell,
            error,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shortened(command: str) -> str:
    """A command without the cells that it names."""
    first, _, options = command.partition(" --")
    return f"{' '.join(first.split()[:2])} --{options}" if options else first


def summary(found: Sequence[Tried]) -> str:
    """How many models end in a decision, by their first pick; how many do not; and how many saved deployments run."""
    decided = [model for model in found if model.decision]
    counts = collections.Counter(model.outcome for model in decided)
    running = [model for model in decided if not model.fault]
    left = [model.outcome or "no outcome" for model in found if not model.decision]
    beside = ", ".join(f"{number} {what}" for what, number in sorted(collections.Counter(left).items()))
    return (
        f"{len(decided)} of {len(found)} end in a decision: {counts['winner']} winner, {counts['keep']} keep, "
        f"{counts['none']} none that leads to one; without a decision: {beside or 0}; "
        f"{len(running)} of {len(decided)} deployments run"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Try each model, and print a table of all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what is made and found, and kept; the same goes on")
    parser.add_argument("--only", nargs="*", choices=list(KINDS), default=None)
    asked = parser.parse_args(arguments)
    place, found = asked.folder.resolve(), []
    for name in asked.only or KINDS:
        answer_file = place / f"{name}.json"
        if not answer_file.is_file():
            answer_file.parent.mkdir(parents=True, exist_ok=True)
            model = tried(name, place / name)
            answer_file.write_text(json.dumps(dataclasses.asdict(model), indent=1))
        found.append(Tried(**json.loads(answer_file.read_text())))
        last = found[-1]
        print(f"{name}: {last.outcome or 'no outcome'} in {last.run_s:.0f} s; {last.cell} {last.fault}", flush=True)
    print(f"\n{table(found)}\n\n{summary(found)}")
    instrument.finish([f"{model.name}: {model.fault}" for model in found if model.fault])


if __name__ == "__main__":
    main()
