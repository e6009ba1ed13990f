"""What a search may choose: a letter for each group of parts of one export, and options of the runtime that runs it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.api import Part, mixture
from bench.api.cell import Cell
from bench.api.names import PluginName

_SMALL = 0.02
"""Parts with a smaller share of a model's weights are grouped by their operator alone."""
OFF, ON = "-", "+"
"""Letters of an option of the runtime."""
Choice = tuple[str, ...]
"""A letter for each group of a design."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Design:
    """The choices for one export on one runtime.

    Attributes:
        base: the cell that leaves every part as it is, against which proposals are measured.
        variant: name of the variant that treats the parts; None where none does, and there are no parts.
        options: names of the runtime's options. Each is a group without parts, behind those with parts.
        parts: the parts.
        groups: numbers of the parts that get the same letter.
        letters: for each group the letters that it may have; the first leaves it as it is.
    """

    base: Cell
    variant: str | None
    options: tuple[str, ...]
    parts: tuple[Part, ...]
    groups: tuple[tuple[int, ...], ...]
    letters: tuple[str, ...]

    @property
    def plain(self) -> Choice:
        """The choice that leaves all parts as they are."""
        return tuple(letters[0] for letters in self.letters)

    def cell(self, choice: Choice) -> Cell:
        """The cell of a choice; the base for the choice that leaves all parts as they are."""
        if choice == self.plain:
            return self.base
        letters, chain = self._letters(choice), self.base.chain
        if letters != [part.letters[0] for part in self.parts]:
            chain = (*chain, PluginName.parse(f"{self.variant}-{mixture.spell(letters)}"))
        first = len(choice) - len(self.options)
        chosen = [name for name, letter in zip(self.options, choice[first:], strict=True) if letter == ON]
        return dataclasses.replace(self.base, chain=chain, provider=self.base.provider.with_options(chosen))

    def has_name(self, choice: Choice) -> bool:
        """Whether the cell of a choice can be spelled: a name is a part of a path, and has an end."""
        return len(mixture.spell(self._letters(choice))) <= mixture.LONGEST

    def _letters(self, choice: Choice) -> list[str]:
        """The letter of each part."""
        each = {part: letter for group, letter in zip(self.groups, choice, strict=True) for part in group}
        return [each[number] for number in range(len(self.parts))]

    def option(self, group: int) -> str | None:
        """The name of the option that a group stands for; None for a group of parts."""
        return None if self.groups[group] else self.options[group - len(self.groups)]

    def named(self, group: int) -> str:
        """A group by its first part, with the number of its parts; or the name of an option."""
        option = self.option(group)
        if option is not None:
            return option
        numbers = self.groups[group]
        parts = [self.parts[number] for number in numbers]
        what = parts[0].alike if len({part.alike for part in parts}) == 1 else parts[0].operator
        return f"{numbers[0] + 1}. {what}" + (f", {len(parts)} times" if len(parts) > 1 else "")

    def with_letter(self, choice: Choice, group: int, letter: str) -> Choice:
        """A choice with another letter for one group."""
        return (*choice[:group], letter, *choice[group + 1 :])

    def uniform(self, letter: str) -> Choice:
        """The choice of a letter for every group that may have it."""
        return tuple(letter if letter in letters else letters[0] for letters in self.letters)

    def singles(self) -> Iterator[tuple[int, str, Choice]]:
        """Each group and letter, with the choice that changes this group alone."""
        for group, letters in enumerate(self.letters):
            for letter in letters[1:]:
                yield group, letter, self.with_letter(self.plain, group, letter)

    def first(self, *, with_neighbours: bool = True) -> list[Choice]:
        """The choices to try first: each letter everywhere, each group alone, and each letter everywhere but there.

        What a node costs depends on its neighbours, for whoever hands on 8 bits to the next need not convert them.

        Args:
            with_neighbours: whether to try each letter everywhere but in one group.
        """
        uniform = {letter: self.uniform(letter) for letter in sorted({*itertools.chain(*self.letters)})}
        without = [
            self.with_letter(uniform[letter], group, self.letters[group][0]) for group, letter, _ in self.singles()
        ]
        choices = [
            *uniform.values(),
            *(choice for _, _, choice in self.singles()),
            *(without if with_neighbours else ()),
        ]
        return [choice for choice in dict.fromkeys(choices) if choice != self.plain]

    def without(self, banned: Mapping[int, str]) -> Design:
        """The design without some letters of some groups."""
        letters = tuple(
            "".join(letter for letter in each if letter not in banned.get(group, ""))
            for group, each in enumerate(self.letters)
        )
        return dataclasses.replace(self, letters=letters)

    def split(self, group: int) -> Design:
        """The design with a group of several parts cut in two halves; parts with the same weights stay together."""
        numbers = self.groups[group]
        shared: dict[str, list[int]] = {}
        for number in numbers:
            shared.setdefault(self.parts[number].weights or str(number), []).append(number)
        blocks = [*shared.values()] if len(shared) > 1 else [[number] for number in numbers]
        halves = tuple(
            tuple(sorted(itertools.chain(*half))) for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :])
        )
        return dataclasses.replace(
            self,
            groups=(*self.groups[:group], *halves, *self.groups[group + 1 :]),
            letters=(*self.letters[: group + 1], *self.letters[group:]),
        )

    def chooses_like(self, other: Design) -> bool:
        """Whether two designs choose for the same parts of the same export, whatever their groups."""
        mine, theirs = ((each.base, each.variant, each.options, each.parts) for each in (self, other))
        return mine == theirs

    def translated(self, choice: Choice, coarse: Design) -> Choice:
        """A choice of a design with the same parts in larger groups as a choice of this one."""
        each = coarse._letters(choice)
        first = len(choice) - len(self.options)
        return (*(each[numbers[0]] for numbers in self.groups if numbers), *choice[first:])

    def refined(self, choice: Choice, group: int) -> Choice:
        """A choice of this design as a choice of the design that `split` makes."""
        return (*choice[: group + 1], *choice[group:])


def design(base: Cell, variant: str | None, parts: Sequence[Part], options: Iterable[str] = ()) -> Design:
    """The design whose groups are the parts that are alike; small parts are grouped by their operator."""
    names = tuple(options)
    total = sum(part.num_weights for part in parts) or 1
    groups: dict[tuple[str, str], list[int]] = {}
    for number, part in enumerate(parts):
        alike = part.alike if part.num_weights >= _SMALL * total else part.operator
        groups.setdefault((alike, part.letters), []).append(number)
    return Design(
        base=base,
        variant=variant,
        options=names,
        parts=tuple(parts),
        groups=(*map(tuple, groups.values()), *(() for _ in names)),
        letters=(*(letters for _, letters in groups), *(OFF + ON for _ in names)),
    )
