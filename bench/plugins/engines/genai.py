"""The folders of onnxruntime-genai, each one file: a tar archive, not compressed, of what its model builder writes.

`tar xf` gives the folder that `onnxruntime_genai.Config` opens: `model.onnx` with its weights beside it in
`model.onnx.data`, `genai_config.json`, and the tokenizer, which nothing here reads.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from bench.api import Info, Task
from bench.api.errors import ArtifactError, RefusedError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.weights import reading
from bench.plugins.engines.archive import pack

FORMAT = "ogenai"
CONFIG, MODEL, TOKENIZER = "genai_config.json", "model.onnx", "tokenizer.json"
_LAST_ONLY = "prune_lm_head=true"
"""The builder's option for the logits of the last token alone, which are all that `Decoder.outputs` has. By its default
a prefill computes those of the whole prompt, of which generation reads the last."""


def build(task: Task, precision: str, target: Path) -> Info:
    """Run onnxruntime-genai's own model builder for the processor, and write its folder to the archive `target`.

    The builder knows architectures by their names in transformers, and reads weights by their names there: it takes no
    exported graph, but a folder in the form of transformers.

    Args:
        task: one whose folder has the files of transformers: `config.json` and `tokenizer.json`.
        precision: the builder's name: `fp32`, or `int4` or `int8` for weights in blocks of 32.

    Raises:
        RefusedError: the task's folder has no such files.
        ArtifactError: the builder cannot build the model.
    """
    needed = [task.folder / "config.json", task.folder / TOKENIZER]
    if not all(file.is_file() for file in needed):
        raise RefusedError(f"no files of transformers in {task.folder.name}: config.json and {TOKENIZER}")
    os.environ["HF_HUB_OFFLINE"] = "1"  # before the builder's imports: everything it needs is in the folder
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, built = Path(folder, "checkpoint"), Path(folder, "built")
        checkpoint.mkdir()
        # Its weights by their names in transformers, whatever they are called in the task's file.
        task.build_step("torch", task.weights_path).model.save_pretrained(checkpoint)
        for file in needed:
            shutil.copyfile(file, checkpoint / file.name)
        # Without it transformers would look for the tokenizer's class by the model's type, and may find a slow one.
        (checkpoint / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        try:
            _run_builder(checkpoint, built, Path(folder, "cache"), precision)
        except Exception as error:
            raise ArtifactError(f"onnxruntime-genai's builder: {type(error).__name__}: {error}") from error
        _unstamp(built / MODEL)
        pack(built, sorted(path.name for path in built.iterdir()), target)
    return {"precision": precision}


def _unstamp(path: Path) -> None:
    """Take out what the builder adds to its version: the commit of the repository that this process is in."""
    model = onnx.load(path, load_external_data=False)
    model.producer_version = model.producer_version.partition("+")[0]
    path.write_bytes(model.SerializeToString(deterministic=True))


def _run_builder(checkpoint: Path, built: Path, cache: Path, precision: str) -> None:
    from onnxruntime_genai.models import builder

    where = ("", str(checkpoint), str(built), precision, "cpu", str(cache))
    logging.getLogger("onnxruntime.quantization.matmul_nbits_quantizer").setLevel(logging.CRITICAL)
    said = io.StringIO()  # it prints each step, and a bar
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        options = builder.parse_extra_options(*where, [_LAST_ONLY, "hf_token=false"])
        builder.create_model(*where, **options)


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive that `build` wrote.

    Raises:
        ArtifactError: the file is no such archive.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            archive.getmember(CONFIG)
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, KeyError) as error:
        raise ArtifactError(f"{path.name} is not a tar archive with {CONFIG}: {error}") from error


def _unpack_graph(path: Path, folder: Path) -> Path:
    """Unpack only the ONNX file of an archive, without its weights; return its path."""
    with tarfile.open(path, "r:") as archive:
        archive.extract(MODEL, folder, filter="data")
    return folder / MODEL


def weight_bytes(path: Path) -> int:
    """Bytes of the weights in an archive, but for tables that rows are looked up in."""
    with tempfile.TemporaryDirectory() as folder:
        return reading.bytes_read(_unpack_graph(path, Path(folder)))


def graph_of(path: Path) -> onnx.ModelProto:
    """The ONNX model of an archive, without its weights."""
    with tempfile.TemporaryDirectory() as folder:
        return onnx.load(_unpack_graph(path, Path(folder)), load_external_data=False)


def is_quantized(path: Path) -> bool:
    """Whether the weights of an archive are quantized."""
    return any(node.op_type == "MatMulNBits" for node in graph_of(path).graph.node)
