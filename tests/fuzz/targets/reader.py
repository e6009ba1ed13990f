"""The reader of ONNX files, down to the bytes: the wire format, external data, the interface, the text."""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.onnxfile import requests
from bench.onnxfile.file import foreign, lazy
from bench.tasks.formats.onnx import MENDS
from fuzz import models, mutations
from fuzz.watch import check_printed, each
from fuzz.workplace import model_file

INSTRUMENTED = ("bench.onnxfile.file", "google.protobuf.internal.decoder")
seeds = models.seeds


def check(content: bytes) -> None:
    with model_file(content) as path:
        stored = lazy.read(path)
        copy = path.with_name("copy.onnx")
        each(
            lambda: check_printed(requests.text(path=str(path))["text"]),
            stored.data_files,
            lambda: [stored.array(tensor) for tensor in stored.model.graph.initializer],
            lambda: foreign.inspect(path),
            lambda: foreign.write(path, copy, mends=MENDS[-1]),
            lambda: requests.weights(path=str(path)),
        )


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    return b"" if chance.random() < 0.5 else mutations.of_model(content, chance, most_bytes)


def smaller(content: bytes) -> Iterator[bytes]:
    yield from mutations.smaller_models(content)
    yield from mutations.smaller_bytes(content)
