"""Variants of null artifacts that fail, or make artifacts with wrong outputs."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.api import Task, Variant


class Faulty(Variant):
    """Each option is a fault."""

    formats = ("null",)
    options = ("raise", "exit", "segfault", "hang", "memory", "nothing", "garbage", "scale3")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        if option == "raise":
            raise RuntimeError("cannot simplify")
        if option == "exit":
            sys.exit(6)
        if option == "segfault":
            ctypes.string_at(0)
        if option == "hang":
            time.sleep(600)
        if option == "memory":
            target.write_bytes(bytearray(b"\1") * 2**30)
        if option == "garbage":
            target.write_text("garbage")
        if option == "scale3":
            target.write_text(json.dumps({**json.loads(source.read_text()), "scale": 3.0}))
        return {}
