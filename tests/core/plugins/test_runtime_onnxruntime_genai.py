"""onnxruntime-genai builds a decoder, generates as many tokens as it is asked for, and tells what it ran."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api.cell import Cell
from bench.api.errors import ArtifactError, RefusedError
from bench.plugins import catalog, steps
from bench.plugins.engines import archive, genai
from support import deferred

pytest.importorskip("onnxruntime_genai")
torch = deferred.importorskip("torch")
deferred.importorskip("transformers")
pytestmark = [pytest.mark.framework, pytest.mark.xdist_group("genai"), pytest.mark.slow(seconds=10)]

PROMPT = np.arange(100, 116)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("built") / "model.ogenai"
    steps.export(catalog.exporter("genai_builder"), catalog.task("codegen_lm~step"), "torch", target)
    return target


def test_an_archive_tells_nothing_of_where_it_was_built(built: Path) -> None:
    """The builder adds the commit of the repository around it, so equal models would have other bytes."""
    version = genai.graph_of(built).producer_version
    assert version
    assert version == version.partition("+")[0]


def opened(path: Path) -> Any:
    asked = catalog.task("codegen_lm~generate@new=8,prompt=16")
    return catalog.runtime("onnxruntime_genai").open(path, task=asked, source="torch", provider="cpu", threads=1)


def with_end(path: Path, ids: list[int]) -> Path:
    """A copy of an archive whose texts end at some ids."""
    folder = path.with_name("ending")
    genai.unpack(path, folder)
    config = json.loads((folder / genai.CONFIG).read_text())
    config["model"]["eos_token_id"] = ids
    (folder / genai.CONFIG).write_text(json.dumps(config))
    archive.pack(folder, sorted(file.name for file in folder.iterdir()), path.with_name("ending.ogenai"))
    shutil.rmtree(folder)
    return path.with_name("ending.ogenai")


def test_the_logits_are_those_of_the_network(built: Path) -> None:
    forced = np.arange(200, 208)
    with opened(built) as session:
        found = session.logits_after(PROMPT, forced)
        assert session.precision == "float32"
        assert session.num_params == 5_770_496
        assert (session.cache_bytes, session.reserved_tokens) == (4, 24)
    network = catalog.task("codegen_lm").build("torch", catalog.task("codegen_lm").weights_path)
    with torch.inference_mode():
        expected = network(torch.from_numpy(np.concatenate([PROMPT, forced]))[None])[0].numpy()
    np.testing.assert_allclose(found, expected[len(PROMPT) - 1 : -1], atol=1e-4)


def test_no_token_ends_a_text(built: Path) -> None:
    with opened(built) as session:
        ids: list[int] = []
        told = session.generate(PROMPT, 8, ids.append)
        assert (told.num_prompt, told.num_cached, len(ids)) == (16, 0, 8)
        again: list[int] = []
        session.generate(PROMPT, 8, again.append)
    assert again == ids
    with opened(with_end(built, [ids[2]])) as session:
        forced: list[int] = []
        session.generate(PROMPT, 8, forced.append)
    assert forced == ids


def test_the_archive_is_the_same_each_time_and_names_no_folder(built: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.ogenai"
    steps.export(catalog.exporter("genai_builder"), catalog.task("codegen_lm~step"), "torch", again)
    assert again.read_bytes() == built.read_bytes()
    with tarfile.open(again) as archive:
        texts = [archive.extractfile(name).read() for name in (genai.CONFIG, "tokenizer_config.json", genai.MODEL)]  # type: ignore[union-attr]
    assert all(b"checkpoint" not in text for text in texts)


@pytest.mark.parametrize(("option", "drift"), [("int4", 4.0), ("int8", 0.5)])
def test_quantized_weights(built: Path, tmp_path: Path, option: str, drift: float) -> None:
    step, target = catalog.task("codegen_lm~step"), tmp_path / "model.ogenai"
    steps.transform(catalog.variant(f"genai-{option}"), step, built, target)
    rows = []
    for path in (built, target):
        with opened(path) as session:
            rows.append(session.logits_after(PROMPT, np.arange(8)))
    assert session.precision == "int8"
    assert np.abs(rows[1] - rows[0]).max() < drift
    with pytest.raises(RefusedError, match="quantized already"):
        steps.transform(catalog.variant("genai-int4"), step, target, tmp_path / "again.ogenai")


def test_other_tasks_and_files_are_refused(tmp_path: Path) -> None:
    assert catalog.exporter("genai_builder").refusal(catalog.task("codegen_lm")) is not None
    assert catalog.exporter("genai_builder").refusal(catalog.task("codegen_lm~generate@new=8,prompt=16")) is None
    cell = Cell.from_path("codegen_lm/torch/genai_builder/raw/onnxruntime_genai/cpu/b1t1")
    assert catalog.skip_reason(cell) == ("onnxruntime_genai: it only generates text; name the task codegen_lm~generate")
    (tmp_path / "other.ogenai").write_bytes(b"no archive")
    with pytest.raises(ArtifactError, match="not a tar archive"):
        opened(tmp_path / "other.ogenai")
