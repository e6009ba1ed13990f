"""The null runtime: a fixed amount of hashing and one multiplication, for trying the harness without a framework.

It opens a JSON file such as `{"rounds": 200, "scale": 2.0}`. The work is counted, not timed: 3 % more rounds are 3 %
more work on every machine, so a measured difference can be compared with the known one.
"""

import hashlib
import json
from pathlib import Path

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import ArtifactError

_BLOCK = bytes(1024)  # below the 2048 bytes from which hashlib lets other Python threads run


class NullSession(Session):
    """Hashes a block at each of `rounds` rounds, then multiplies the input `name` by `scale`."""

    def __init__(self, *, rounds: int, scale: float, name: str) -> None:
        self._rounds = range(rounds)
        self._scale = scale
        self._name = name

    def run(self, feeds: Arrays) -> Outputs:
        digest = hashlib.sha256()
        for _ in self._rounds:
            digest.update(_BLOCK)
        return [feeds[self._name] * self._scale]


class NullRuntime(Runtime):
    """Opens artifacts of the format `null`; always one thread."""

    formats = ("null",)
    default_for = ("null",)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        try:
            fields = json.loads(artifact.read_text())
            return NullSession(rounds=int(fields["rounds"]), scale=float(fields["scale"]), name=task.inputs[0].name)
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(
                f"{artifact.name} is not a null artifact, such as {{'rounds': 200, 'scale': 2.0}}: {error!r}"
            ) from error
