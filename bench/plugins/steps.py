"""A step on the way to an artifact: call an exporter or a variant, then check its result.

Every step leaves one file that is not empty and returns a dict; an exported ONNX file has the inputs and outputs of its
task, and a changed one those of the file before it.
"""

import tempfile
from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.onnxfile.edits.opset import told_if_raised
from bench.onnxfile.file.interface import check_interface, check_kept
from bench.onnxfile.file.normalized import unlisted
from bench.onnxfile.file.stated_outputs import restate
from bench.plugins.catalog import NamedVariant


def export(exporter: Exporter, task: Task, source: str, target: Path) -> Info:
    """Export a task's model from the framework `source` to the file `target`.

    Returns:
        The facts to keep with the artifact, as the exporter returned them.

    Raises:
        ArtifactError: the ONNX file has other inputs or outputs than the task declares.
        TypeError: the exporter returned no dict.
        ValueError: the exporter wrote no file.
    """
    info = exporter.export(task, source, target)
    _ensure_written(info, target)
    if target.suffix == ".onnx" and not exporter.copies:
        check_interface(target, task)
    return info


def transform(named: NamedVariant, task: Task, source: Path, target: Path) -> Info:
    """Apply a variant to the artifact `source` and write the file `target`.

    An ONNX file keeps the interface of its source; a variant that freezes may fix sizes that the source leaves open. A
    source that lists its weights as inputs, as old files do, is given to the variant as a copy that does not.

    Returns:
        The facts to keep with the artifact, as the variant returned them, and in their `note`, too, that the variant
        raised the file's operator set, or stated a shape of an output that was put back.

    Raises:
        ArtifactError: the ONNX file has other inputs or outputs than its source.
        TypeError: the variant returned no dict.
        ValueError: the variant wrote no file.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Tools take a weight that is listed as an input for one that a request may replace.
        variant_source = unlisted(source, Path(folder)) if source.suffix == ".onnx" else source
        info = named.variant.apply(variant_source, target, option=named.option, task=task)
    _ensure_written(info, target)
    if target.suffix == ".onnx":
        lines = [None if named.variant.freezes else restate(target, source), told_if_raised(source, target)]
        check_kept(target, source, task, may_fix=named.variant.freezes)
        if notes := [note for note in (*lines, info.get("note")) if note is not None]:
            return {**info, "note": "; ".join(notes)}
    return info


def _ensure_written(info: object, target: Path) -> None:
    if not isinstance(info, dict):
        raise TypeError(f"it returned {type(info).__name__}; it must return a dict of what is worth keeping")
    if not target.is_file() or target.stat().st_size == 0:
        raise ValueError("no artifact was written")
