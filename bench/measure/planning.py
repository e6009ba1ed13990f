"""The plan of a round: which cells meet in which block, and in which order the blocks run."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence

from bench.measure.ledgers import Group, Ledger
from bench.measure.open_work import Need, OpenWork

MAX_WORKERS = 14  # a longer pass would let the machine drift between a burst and its reference's
_MEMORY_SHARE = 0.6  # of the memory now free, for the workers of one block


def plan_round(groups: Sequence[Group], work: OpenWork, free_bytes: int) -> list[tuple[int, list[Ledger]]]:
    """The blocks of a round, each with the index of its group: those of the most urgent rank alone.

    So the contenders for a choice meet in blocks of their own. Groups take turns, so the launches of each are spread
    over the round; those whose choice takes fewest launches come first, for the time may end the round.
    """
    most = [max((need.urgency[:2] for need in needs.values()), default=(0.0, False)) for needs in work.needs]
    if not any(work.needs):
        return []
    first, _ = max(most)
    urgent = [
        {name: need for name, need in needs.items() if need.urgency[:2] == own and own[0] == first}
        for needs, own in zip(work.needs, most, strict=True)
    ]
    blocks = [
        [(index, block) for block in _blocks(group, urgent[index], free_bytes)] for index, group in enumerate(groups)
    ]
    turns = [planned for turn in itertools.zip_longest(*blocks) for planned in turn if planned is not None]

    def nearness(planned: tuple[int, list[Ledger]]) -> float:
        index, _ = planned
        return min((need.urgency[2] for need in urgent[index].values()), default=math.inf)

    return sorted(turns, key=nearness, reverse=True)


def _blocks(group: Group, needs: Mapping[str, Need], free_bytes: int) -> list[list[Ledger]]:
    """The cells of a group that get a launch in random order, cut into blocks that fit the memory now free.

    First launches go to those first that earlier sweeps let expect to be fast, for the time may end the round.
    """
    waiting = [ledger for ledger in group.ledgers if ledger.name in needs]
    others = [ledger for ledger in waiting if ledger is not group.baseline]
    budget = _MEMORY_SHARE * free_bytes
    twins = 2 * group.baseline.subject.rss_bytes
    blocks: list[list[Ledger]] = []
    used = 0.0
    drawn = random.sample(others, len(others))
    for ledger in sorted(drawn, key=lambda ledger: 0.0 if ledger.launches else ledger.expected):
        is_full = blocks and (len(blocks[-1]) + 2 >= MAX_WORKERS or used + ledger.subject.rss_bytes > budget)
        if not blocks or is_full:
            blocks.append([])
            used = twins
        blocks[-1].append(ledger)
        used += ledger.subject.rss_bytes
    if not blocks and waiting:  # the baseline alone: its block is the reference and the control
        blocks.append([])
    return blocks
