"""One deployment for several kinds of machine: the cell whose largest regret over all of them is the smallest.

The regret of a cell on a machine is the share by which it is slower than the fastest cell that qualifies there. Only
ratios within a machine are used: machines have no ratio to one another. The interval of a regret holds with 95 %
confidence over all machines together and although the cell was chosen by the same data: it is corrected for the cells
that might have been chosen, as in `bench.measure.selection`.

Sources: Savage 1951, doi 10.1080/01621459.1951.10500768 (minimax regret); Zrnic and Fithian 2024, arXiv 2212.09009
(correction for the plausible selections).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.decisions.answer import of_one_batch
from bench.decisions.constraints import Constraints, qualified
from bench.measure import selection, stats
from bench.measure.comparison import Fitted
from bench.measure.stats import Effect, Estimate
from bench.records import ranking
from bench.records.folder import Results
from bench.records.rows import Row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Regrets:
    """A cell that qualifies on all machines.

    Attributes:
        cell: its path.
        rows: its row on each machine.
        on: its regret on each machine, as a share, with an interval.
        worst: the largest of its regrets, likewise.
    """

    cell: str
    rows: Mapping[str, Row]
    on: Mapping[str, Estimate]
    worst: Estimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Everywhere:
    """The cells that qualify on all machines, by their largest regret.

    Attributes:
        title: the request.
        fastest: the row of the fastest cell that qualifies on each machine.
        ranked: the cells that qualify on all machines, the smallest regret first.
    """

    title: str
    fastest: Mapping[str, Row]
    ranked: tuple[Regrets, ...]

    @property
    def untold(self) -> tuple[Regrets, ...]:
        """Those of the others that were not shown to have a larger regret than the first."""
        first, *others = self.ranked
        return tuple(regrets for regrets in others if regrets.worst.low < first.worst.high)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Machine:
    """The cells that qualify on one machine: those that may be the fastest, and the rows of all by path.

    A cell that runs the same graph as another one has the row of that one.
    """

    fitted: Fitted
    best: tuple[str, ...]
    rows: Mapping[str, Row]

    def over_best(self, cell: str) -> list[Effect]:
        own = self.rows[cell].cell
        return [self.fitted.effect(own, other) for other in self.best if other != own]

    def regret(self, cell: str) -> float:
        """The estimate, on the log scale."""
        return max([0.0, *(effect.value for effect in self.over_best(cell))])

    def error(self, cell: str, alpha: float) -> float:
        """How far the estimate is off at most, but for a probability."""
        return max([0.0, *(effect.half_width(alpha) for effect in self.over_best(cell))])

    def bounds(self, cell: str, alpha: float) -> Estimate:
        """The regret as a share; its ends are wrong with half of a probability each.

        It has no upper end while the cell, or one of the others that may be faster, has too few launches.
        """
        over = self.over_best(cell)
        # That the cell is slower than any of several may be wrong for each; the fastest is one of them.
        low = max([0.0, *(selection.lowest(effect, alpha / 2 / len(over)) for effect in over)])
        high = max([0.0, *(selection.highest(effect, alpha / 2) for effect in over)])
        if over and not selection.is_known(self.fitted, self.rows[cell].cell, *self.best):
            high = math.inf
        return Estimate(value=math.expm1(self.regret(cell)), low=math.expm1(low), high=stats.exp(high) - 1)


def choose(stored: Mapping[str, Results], rows: Mapping[str, Sequence[Row]], constraints: Constraints) -> Everywhere:
    """Compare the cells that qualify on all machines.

    Args:
        stored: the results of each machine, by its name.
        rows: the rows of each machine to choose among, of one request.
        constraints: the limits that the cell must keep to on every machine.

    Raises:
        InputError: no cell qualifies on all machines.
    """
    machines = {name: _machine(results, rows[name], constraints, len(stored)) for name, results in stored.items()}
    common = set.intersection(*({*machine.rows} for machine in machines.values()))
    names = sorted(cell for cell in common if any(machine.rows[cell].cell == cell for machine in machines.values()))
    if not names:
        each = ", ".join(f"{name} {len(machine.rows)}" for name, machine in machines.items())
        raise InputError(f"no cell qualifies on all machines; on each alone: {each}")
    plausible = _plausible(machines, names)
    alpha = (stats.ALPHA - selection.SPENT) / len(machines) / len(plausible)
    ranked = [_regrets(machines, cell, alpha) for cell in names]
    some = next(row for own in rows.values() for row in own)
    return Everywhere(
        title=ranking.select([some]).groups[0].title,
        fastest={name: machine.rows[machine.best[0]] for name, machine in machines.items()},
        ranked=tuple(sorted(ranked, key=lambda regrets: (regrets.worst.value, regrets.cell))),
    )


def of_one_request(
    rows: Mapping[str, Sequence[Row]], batch: int | None = None, threads: int | None = None
) -> dict[str, list[Row]]:
    """The rows of a request that was measured on all machines; of several, the request with most rows.

    Args:
        rows: the rows of one task, by machine.
        batch: batch of the request; None for any batch.
        threads: number of threads of the request; None for any number.

    Raises:
        InputError: there is one machine alone, or no request was measured on all.
    """
    if len(rows) < 2:
        raise InputError(
            f"there are results of one kind of machine alone: {', '.join(rows)}", fix="leave out --everywhere"
        )
    each = [{(row.batch, row.threads) for row in own if ranking.is_ranked(row)} for own in rows.values()]
    common = {key for key in set.intersection(*each) if batch in (None, key[0]) and threads in (None, key[1])}
    if not common:
        raise InputError("no request was measured on all machines, with answers that are right")
    every = [row for own in rows.values() for row in own if (row.batch, row.threads) in common]
    timed = collections.Counter(row.threads for row in of_one_batch(every, batch, threads) if ranking.is_ranked(row))
    chosen = (of_one_batch(every, batch, threads)[0].batch, max(timed, key=lambda number: (timed[number], -number)))
    return {name: [row for row in own if (row.batch, row.threads) == chosen] for name, own in rows.items()}


def of_all_requests(stored: Mapping[str, Results], rows: Mapping[str, Sequence[Row]]) -> list[Everywhere]:
    """A choice for each request that has cells that keep their metric on all machines; none for one machine alone.

    Args:
        stored: the results of each machine, by its name.
        rows: the rows of each machine to choose among.
    """
    by_request = {
        name: {(group.task, group.batch, group.threads): group.rows for group in ranking.select(own).groups}
        for name, own in rows.items()
    }
    first, *others = by_request.values()
    choices = []
    for request in first if others else ():
        if all(request in other for other in others):
            with contextlib.suppress(InputError):  # nothing qualifies
                own = {name: groups[request] for name, groups in by_request.items()}
                choices.append(choose(stored, own, Constraints(max_metric_loss=AllowedLoss())))
    return choices


def _machine(results: Results, rows: Sequence[Row], constraints: Constraints, num_machines: int) -> _Machine:
    (group,) = ranking.select(rows).groups
    sound = qualified(results.measurements, group, constraints).rows
    if not sound:
        raise InputError(f"no cell of {group.title} qualifies in {results.folder}; `bench pick` there says why")
    fitted = results.measurements.of(sound[0].cell)
    assert fitted is not None, "a row with a ratio was timed beside its baseline"
    if apart := [row.cell for row in sound if row.cell not in fitted.names]:
        raise InputError(f"{apart[0]} and {sound[0].cell} were timed beside different baselines in {results.folder}")
    known = {row.cell: row for row in sound}
    first, *others = sorted(known, key=lambda cell: (fitted.effect(cell, sound[0].cell).value, cell))
    each = selection.SPENT / 2 / num_machines / max(1, len(others))
    rivals = (cell for cell in others if selection.lowest(fitted.effect(cell, first), each) <= 0)
    twins = {row.cell: known[row.same_as] for row in group.rows if row.same_as in known}
    return _Machine(fitted=fitted, best=(first, *rivals), rows={**known, **twins})


def _plausible(machines: Mapping[str, _Machine], names: Sequence[str]) -> list[str]:
    """The cells that might have been chosen: both the data and the truth may lie off by the error."""
    each = selection.SPENT / 2 / len(machines) / len(names)
    worst = {cell: max(machine.regret(cell) for machine in machines.values()) for cell in names}
    error = {cell: max(machine.error(cell, each) for machine in machines.values()) for cell in names}
    most = min(worst[cell] + 2 * error[cell] for cell in names)
    return [cell for cell in names if worst[cell] - 2 * error[cell] <= most]


def _regrets(machines: Mapping[str, _Machine], cell: str, alpha: float) -> Regrets:
    on = {name: machine.bounds(cell, alpha) for name, machine in machines.items()}
    return Regrets(
        cell=cell,
        rows={name: machine.rows[cell] for name, machine in machines.items()},
        on=on,
        worst=Estimate(
            value=max(regret.value for regret in on.values()),
            low=max(regret.low for regret in on.values()),
            high=max(regret.high for regret in on.values()),
        ),
    )
