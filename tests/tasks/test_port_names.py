"""TFLite and OpenVINO files whose names are no text, or whose places lead nowhere, are refused by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from bench.api.errors import InputError
from bench.tasks import tflite_names
from bench.tasks.formats import module_of
from bench.tasks.options import Asked
from fuzz.targets import ports

pytestmark = pytest.mark.framework("litert")


def changed(change: Callable[[Any], None]) -> bytes:
    """The TFLite file of the fuzzer with a change."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(ports._tflite(), 0))
    change(model)
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_good_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(ports._tflite())
    (tmp_path / "model.xml").write_bytes(ports.XML)
    (tmp_path / "model.bin").write_bytes(ports.WEIGHTS)
    for name, suffix, outputs in (("tflite", ".tflite", ["second"]), ("openvino", ".xml", ["y"])):
        (tmp_path / name).mkdir()
        found = module_of(name).examine(tmp_path / f"model{suffix}", tmp_path / name, Asked())
        assert [spec.name for spec in found.outputs] == outputs


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: setattr(m.subgraphs[0].tensors[1], "name", b"\xff"), r"the name of tensor 1 of its subgraph 0 is b"),
        (lambda m: setattr(m.signatureDefs[0], "signatureKey", b"\xff"), "the key of its signature 0 is b'"),
        (lambda m: setattr(m.signatureDefs[0].inputs[0], "name", b"\xc3"), "the name of input 0 of its signature 'ser"),
        (lambda m: setattr(m.signatureDefs[0].outputs[0], "tensorIndex", 2**32 - 1), "output 'second' of .* is tensor"),
        (lambda m: setattr(m.signatureDefs[0], "subgraphIndex", 7), "its signature 'serving_default' is of subgraph 7"),
        (lambda m: setattr(m.subgraphs[0], "inputs", [9]), "input 0 of its subgraph 0 is tensor 9, and there are 2"),
        (lambda m: setattr(m.subgraphs[0], "outputs", [-1]), "output 0 of its subgraph 0 is tensor -1"),
        (lambda m: setattr(m.subgraphs[0].operators[0], "opcodeIndex", 5), "operator 0 of its subgraph 0 is of kind 5"),
        (lambda m: setattr(m.subgraphs[0].operators[0], "inputs", [8]), "input 0 of operator 0 of its subgraph 0 is t"),
        (lambda m: setattr(m.subgraphs[0].tensors[0], "buffer", 6), "tensor 0 of its subgraph 0 is in buffer 6, and i"),
        (lambda m: setattr(m, "subgraphs", []), "it has no subgraph, so there is nothing to run"),
    ],
)
def test_a_name_or_a_place_in_a_tflite_file_is_named(change: Callable[[Any], None], says: str, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(changed(change))
    with pytest.raises(InputError, match=says):
        module_of("tflite").examine(tmp_path / "model.tflite", tmp_path, Asked())


def test_a_tflite_file_that_ends_early_is_refused_in_a_sentence(tmp_path: Path) -> None:
    whole = ports._tflite()
    for size in range(1, len(whole) - 8, 7):
        (tmp_path / "model.tflite").write_bytes(whole[:size])
        with contextlib.suppress(InputError):  # bytes at the end may be of no table
            tflite_names.check(tmp_path / "model.tflite")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'names="x"', b'names="&#xd800;"', "the name of its input 0 is no text in UTF-8|OpenVINO cannot read it"),
        (b'names="y,z"', b'names="\xff"', "the name of its output 0 is no text in UTF-8|OpenVINO cannot read it"),
        (b'shape="?,8"', b'shape="4611686018427387904,8"', "OpenVINO cannot (read|compile) it|4611686018427387904"),
        (b'size="128"', b'size="99999999999"', "OpenVINO cannot read it: "),
        (b'offset="0"', b'offset="99999999999"', "OpenVINO cannot read it: "),
        (b'shape="?,8"', b'shape="..."', "input 'x' has no shape|OpenVINO cannot"),
        (b'to-layer="2" to-port="0"', b'to-layer="99" to-port="0"', "OpenVINO cannot read it: "),
    ],
)
def test_an_openvino_file_is_refused_in_a_sentence(old: bytes, new: bytes, says: str, tmp_path: Path) -> None:
    assert old in ports.XML
    (tmp_path / "model.xml").write_bytes(ports.XML.replace(old, new, 1))
    (tmp_path / "model.bin").write_bytes(ports.WEIGHTS)
    with pytest.raises(InputError, match=says):
        module_of("openvino").examine(tmp_path / "model.xml", tmp_path, Asked())
