"""How often the bound on the lost metric holds, in simulated splits of the sizes and kinds of the tasks here.

Each trial draws a split from a population whose true loss is known, and asks whether the bound is at least as large. It
must be in 95 % of the trials, less three standard errors of the simulation. So must all bounds together of the looks
of a sweep: after its first samples, after as many as bound a loss of nothing, later, and at the end. Beside them: the
percentile bootstrap of the same samples, and Student's bound, which hold where many samples differ and fail where few
do.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable

import instrument
import numpy as np
from scipy import stats

from bench.pipeline import looks as sweeping
from bench.records import metric_loss

Draw = Callable[[np.random.Generator], np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Population:
    """Points that samples lose.

    Attributes:
        name: what it is like.
        draw: draws the points that each sample of a split loses.
        truth: the mean over all samples there could be.
        most: the most points that a sample can lose.
    """

    name: str
    draw: Draw
    truth: float
    most: float = 1.0


def flips(num_samples: int, lost: float, gained: float) -> Population:
    """Samples of one point each, which are lost and gained with these probabilities."""
    return Population(
        name=f"{num_samples} strings, {lost:.2%} lost, {gained:.2%} gained",
        draw=lambda random: random.choice([1.0, -1.0, 0.0], num_samples, p=[lost, gained, 1 - lost - gained]),
        truth=lost - gained,
    )


def lines(num_samples: int, differing: float, whole: float) -> Population:
    """Lines of 11 characters that differ with a probability: some are lost whole, the others by an edit or two."""
    shares, odds = np.array([11.0, 2.0, 1.0, -1.0]) / 11, np.array([whole, 0.2, 0.5 - whole, 0.3])

    def draw(random: np.random.Generator) -> np.ndarray:
        return np.where(random.random(num_samples) < differing, random.choice(shares, num_samples, p=odds), 0.0)

    name = f"{num_samples} lines, {differing:.2%} differ, {whole:.0%} of these are lost whole"
    return Population(name=name, draw=draw, truth=differing * float(shares @ odds))


def photographs(num_samples: int, median_db: float, spread: float) -> Population:
    """Photographs that each lose something, log-normally, at most 1 dB."""
    level = math.log(median_db)
    truth = stats.lognorm(spread, scale=median_db).expect(lambda loss: min(loss, 1.0), lb=0, ub=np.inf)
    return Population(
        name=f"{num_samples} photographs, {median_db} dB lost, log-sd {spread}",
        draw=lambda random: np.minimum(1.0, random.lognormal(level, spread, num_samples)),
        truth=float(truth),
    )


def rarely(num_samples: int, chance: float, loss_db: float) -> Population:
    """Photographs of which a few lose 1 dB and the others little, with a normal error."""
    return Population(
        name=f"{num_samples} photographs, {chance:.1%} lose 1 dB, the others about {loss_db}",
        draw=lambda random: np.where(
            random.random(num_samples) < chance, 1.0, random.normal(loss_db, loss_db / 2, num_samples)
        ),
        truth=chance + (1 - chance) * loss_db,
    )


POPULATIONS = (
    flips(720, 0.00415, 0.0),
    flips(720, 0.001, 0.0),
    flips(720, 0.006, 0.002),
    flips(720, 0.01, 0.01),
    flips(720, 0.05, 0.04),
    flips(100, 0.0295, 0.0),
    lines(1500, 0.002, 0.0),
    lines(1500, 0.002, 0.05),
    lines(1500, 0.00195, 0.5),
    lines(1500, 0.03, 0.01),
    lines(1500, 0.012, 0.5),
    photographs(64, 0.05, 0.3),
    photographs(64, 0.05, 1.0),
    photographs(64, 0.01, 2.0),
    photographs(14, 0.1, 1.0),
    photographs(4, 0.1, 1.0),
    rarely(64, 0.02, 0.02),
    rarely(64, 0.045, 0.0001),
    rarely(30, 0.05, 0.1),
)


def least_bound(losses: np.ndarray, population: Population) -> float:
    """The least of all bounds at which a sweep may stop that runs the samples one after the other."""
    total, limit = len(losses), population.truth
    looks = {sweeping.FEWEST, sweeping.GATE, 2 * sweeping.GATE, 5 * sweeping.GATE, total}
    if limit > 0:  # the look at which a loss that is a little less than the true loss would be accepted
        looks.add(metric_loss.num_without_loss(0.999 * limit, score=1.0, most=population.most))
    bounds = [
        metric_loss.lost(np.zeros(number), losses[:number], score=1.0, most=population.most, of=total).high()
        for number in looks
        if number <= total
    ]
    return min(bounds)


def main() -> None:
    """Simulate each population and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--only", default="", help="populations with these words in their name, such as photographs")
    asked = parser.parse_args()
    trials = asked.trials
    least = 1 - metric_loss.ALPHA - 3 * math.sqrt(metric_loss.ALPHA * (1 - metric_loss.ALPHA) / trials)
    failures = []
    print(f"{'population':62}  {'true loss':>9}  {'median bound':>12}  coverage  any look  bootstrap  Student")
    for number, population in enumerate(POPULATIONS):
        if asked.only not in population.name:
            continue
        random = np.random.default_rng(number)
        bounds, least_of_looks, resampled, student = np.empty((4, trials))
        for trial in range(trials):
            losses = population.draw(random)
            split = metric_loss.lost(np.zeros(len(losses)), losses, score=1.0, most=population.most)
            bounds[trial] = split.high()
            least_of_looks[trial] = least_bound(losses, population)
            values, counts = np.unique(losses, return_counts=True)
            drawn = random.multinomial(len(losses), counts / len(losses), 400) @ values / len(losses)
            resampled[trial] = np.quantile(drawn, 1 - metric_loss.ALPHA)
            error = losses.std(ddof=1) / math.sqrt(len(losses))
            student[trial] = losses.mean() + stats.t.ppf(1 - metric_loss.ALPHA, len(losses) - 1) * error
        every = (bounds, least_of_looks, resampled, student)
        held, at_looks, *others = ((found >= population.truth).mean() for found in every)
        figures = f"{population.truth:9.5f}  {np.median(bounds):12.5f}  {held:8.4f}  {at_looks:8.4f}"
        print(f"{population.name:62}  {figures}  {others[0]:9.4f}  {others[1]:7.4f}", flush=True)
        for share, name in ((held, "the bound holds"), (at_looks, "the bounds at all looks hold")):
            if share < least:
                failures.append(f"{name} in {share:.4f} of the trials only: {population.name}")
    instrument.finish(failures)


if __name__ == "__main__":
    main()
