"""The null runtime: a fixed amount of hashing and one multiplication, for trying the harness without a framework.

It opens a JSON file such as `{"rounds": 200, "scale": 2.0}`. The work is counted, not timed: 3 % more rounds are 3 %
more work on every machine, so what the harness measures can be compared with what is known.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import ArtifactError, InputError, suggest

BLOCK = bytes(1024)  # below the 2048 bytes from which hashlib lets other Python threads run


@dataclasses.dataclass(frozen=True, kw_only=True)
class NullModel:
    """What a null artifact holds.

    Attributes:
        rounds: blocks of 1 KiB hashed at each inference.
        scale: what the first input is multiplied by.
    """

    rounds: int
    scale: float


class NullSession(Session):
    """Hashes, then scales."""

    def __init__(self, model: NullModel, name: str) -> None:
        self._rounds = range(model.rounds)
        self._scale = model.scale
        self._name = name

    def run(self, feeds: Arrays) -> Outputs:
        digest = hashlib.sha256()
        for _ in self._rounds:
            digest.update(BLOCK)
        return [feeds[self._name] * self._scale]


class NullRuntime(Runtime):
    """Opens artifacts of the format `null`; always one thread."""

    formats = ("null",)
    default_for = ("null",)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider not in self.providers():
            raise InputError(f"{self.name} has no provider {provider!r}; {suggest(provider, self.providers())}")
        return NullSession(_read(artifact), task.inputs[0].name)


def _read(path: Path) -> NullModel:
    try:
        fields = json.loads(path.read_text())
        return NullModel(rounds=int(fields["rounds"]), scale=float(fields["scale"]))
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(
            f"{path.name} is not a null artifact, such as {{'rounds': 200, 'scale': 2.0}}: {error!r}"
        ) from error
