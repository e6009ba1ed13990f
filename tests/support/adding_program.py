"""A program for `bench.api.program`: adds 1 to its input, and misbehaves as its provider asks."""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time

import numpy as np

LENGTHS = struct.Struct("<IQ")


def exactly(length: int) -> bytes:
    data = sys.stdin.buffer.read(length)
    if len(data) < length:
        sys.exit(0)
    return data


def answer(header: dict[str, object], array: np.ndarray | None = None) -> None:
    data = b""
    if array is not None:
        header["arrays"] = [{"name": "y", "dtype": array.dtype.name, "shape": list(array.shape)}]
        data = array.tobytes()
        data += bytes(-len(data) % 8)
    text = json.dumps(header).encode()
    sys.stdout.buffer.write(LENGTHS.pack(len(text), len(data)) + text + data)
    sys.stdout.buffer.flush()


def main() -> None:
    provider, kept = "", {}
    while True:
        lengths = LENGTHS.unpack(exactly(LENGTHS.size))
        header, data = json.loads(exactly(lengths[0])), exactly(lengths[1])
        arrays = {
            each["name"]: np.frombuffer(data, each["dtype"], int(np.prod(each["shape"]))).reshape(each["shape"])
            for each in header["arrays"]
        }
        match header["operation"]:
            case "start":
                answer({})
            case "open":
                provider = header["provider"]
                answer({"precision": "float32"} if provider != "cpu+refuse" else {"error": "it is no model"})
            case "close":
                answer({})
            case "keep":
                kept[header["session"], header["request"]] = arrays["x"]
                answer({})
            case "burst":
                answer(
                    {
                        "cold": [7] * header["min_cold"],
                        "steady": [int(kept[header["session"], header["request"]].sum())],
                    }
                )
            case "run" if provider == "cpu+crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "run" if provider == "cpu+kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "run" if provider == "cpu+memory":
                answer({"error": "RangeError: Array buffer allocation failed"})
            case "run" if provider == "cpu+nothing":
                answer({"ns": 5})
            case "run" if provider == "cpu+exit":
                sys.exit(3)
            case "run" if provider == "cpu+print":
                print("a line of a package, where answers go", " " * 100)
                sys.stdout.flush()
            case "run" if provider == "cpu+hang":
                time.sleep(1000)
            case "run":
                answer({"ns": 5}, arrays["x"] + 1)


main()
