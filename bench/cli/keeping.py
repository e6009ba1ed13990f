"""The store of a command that can be stopped: no signal comes between a line and its count."""

from __future__ import annotations

from pathlib import Path

from bench.cli.stopping import Stopping
from bench.measure.launch import Launch
from bench.records.lines import FeatureLine, Line
from bench.records.store import Store


class KeepingStore(Store):
    """A store that counts the launches that it keeps."""

    def __init__(self, results: Path, machine: str, stopping: Stopping) -> None:
        super().__init__(results, machine)
        self._stopping = stopping
        stopping.keeps = True

    def append(self, key: str, line: Line) -> None:
        if isinstance(line, FeatureLine):
            is_launch = line.is_launch
        else:
            is_launch = isinstance(line, Launch) and not line.superseded
        with self._stopping.keeping(int(is_launch)):
            super().append(key, line)
