"""Twelve kinds of own data: the metric of each beside scikit-learn's, and what `bench check` says of planted models.

For each kind it makes a model, samples and targets; runs `bench run`, `show` and `pick`; computes the metric of the
file and of the picked file by ONNX Runtime and scikit-learn alone; and has `bench check` compare the file with itself
and with three planted models of the same interface: their answers are the opposite, shuffled, or the same for every
sample. A kind that is finished is not run again: FOLDER keeps its figures.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import instrument
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn import metrics as truth

N, FEATURES, HIDDEN, LENGTH, SIDE = 400, 12, 24, 8, 8
HELD_OUT = np.arange(N) % 5 != 0
CELLS = ("onnx/native/raw/onnxruntime/cpu/b1t1", "onnx/native/int8_dynamic/onnxruntime/cpu/b1t1")
PLANTED = ("opposite", "shuffled", "constant")
NOISE = 0.1
"""Share of the targets that are made wrong, so that no metric is perfect."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of own data.

    Attributes:
        shape: shape of the judged output for each sample.
        body: what makes the features: `table`, `ids` or `image`.
        activation: operator behind the head, or None.
        targets: targets from the judged output of the whole data set and a random generator.
        metric: the metric of the judged output and the targets, of held-out samples, by scikit-learn.
        judged: name of the judged output.
        extra: whether an embedding is an output as well; `first` puts it before the judged one.
        options: further options of the commands.
        refused: targets that must be refused, and a part of the sentence that says why.
    """

    shape: tuple[int, ...]
    targets: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    metric: Callable[[np.ndarray, np.ndarray], float]
    body: str = "table"
    activation: str | None = None
    judged: str = "scores"
    extra: str | None = None
    options: tuple[str, ...] = ()
    refused: tuple[Callable[[np.ndarray], np.ndarray], str] | None = field(default=None)


def flipped(classes: np.ndarray, num: int, generator: np.random.Generator) -> np.ndarray:
    """Classes of which some are others."""
    return np.where(generator.random(classes.shape) < NOISE, (classes + 1) % num, classes)


def padded(classes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Classes along the last axis whose ends are -100."""
    ends = generator.integers(2, classes.shape[1], len(classes))
    return np.where(np.arange(classes.shape[1])[None] >= ends[:, None], -100, classes)


def accuracy(axis: int) -> Callable[[np.ndarray, np.ndarray], float]:
    """The share of right classes by scikit-learn, without targets of -100."""

    def metric(output: np.ndarray, targets: np.ndarray) -> float:
        counted = targets != -100
        return float(truth.accuracy_score(targets[counted], output.argmax(axis=axis)[counted]))

    return metric


def error(output: np.ndarray, targets: np.ndarray) -> float:
    """The root of the mean squared error by scikit-learn."""
    return float(truth.root_mean_squared_error(targets.ravel(), output.ravel()))


def noisy(output: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Right values near an output."""
    return output + generator.normal(0, NOISE * output.std(), output.shape)


KINDS = {
    "binary_one_score": Kind(
        shape=(1,),
        activation="Sigmoid",
        targets=lambda p, g: flipped((p[:, 0] > 0.5).astype(np.int64), 2, g),
        metric=lambda p, y: float(truth.accuracy_score(y, p[:, 0] > 0.5)),
    ),
    "binary_two_scores": Kind(
        shape=(2,), activation="Softmax", targets=lambda p, g: flipped(p.argmax(1), 2, g), metric=accuracy(1)
    ),
    "multi_class": Kind(shape=(10,), targets=lambda z, g: flipped(z.argmax(1), 10, g), metric=accuracy(1)),
    "multi_label": Kind(
        shape=(4,),
        activation="Sigmoid",
        targets=lambda p, g: flipped((p > 0.5).astype(np.int64), 2, g),
        metric=lambda p, y: 1 - float(truth.hamming_loss(y, p > 0.5)),
    ),
    "sequence_labels": Kind(
        shape=(LENGTH, 5),
        body="ids",
        targets=lambda z, g: padded(flipped(z.argmax(-1), 5, g), g),
        metric=accuracy(-1),
    ),
    "regression": Kind(shape=(1,), targets=lambda y, g: noisy(y, g)[:, 0], metric=error),
    "detection": Kind(shape=(6, 4), judged="boxes", targets=noisy, metric=error),
    "embedding": Kind(shape=(16,), judged="embedding", targets=noisy, metric=error),
    "segmentation": Kind(
        shape=(3, SIDE, SIDE), body="image", targets=lambda z, g: flipped(z.argmax(1), 3, g), metric=accuracy(1)
    ),
    "text_generation": Kind(
        shape=(LENGTH, 40),
        body="ids",
        judged="logits",
        targets=lambda z, g: padded(flipped(z.argmax(-1), 40, g), g),
        metric=accuracy(-1),
    ),
    "one_based_labels": Kind(
        shape=(7,),
        targets=lambda z, g: flipped(z.argmax(1), 7, g),
        metric=accuracy(1),
        refused=(lambda y: y + 1, "targets run from 1 to 7; output 'scores' has 7 classes: 0 to 6"),
    ),
    "outputs_in_another_order": Kind(
        shape=(5,), extra="first", targets=lambda z, g: flipped(z.argmax(1), 5, g), metric=accuracy(1)
    ),
}


def weights_of(kind: Kind, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """The weights of the head, and those before it."""
    wide = {"table": (FEATURES, HIDDEN), "ids": (50, HIDDEN), "image": (HIDDEN, 1, 3, 3)}[kind.body]
    number = {"table": int(np.prod(kind.shape)), "ids": kind.shape[-1], "image": kind.shape[0]}[kind.body]
    head = generator.normal(0, 1, (HIDDEN, number))
    found = {"body": generator.normal(0, 0.5, wide), "head": head, "bias": generator.normal(0, 0.3, number)}
    return {name: values.astype(np.float32) for name, values in found.items()}


def planted(kind: Kind, weights: dict[str, np.ndarray], way: str) -> dict[str, np.ndarray]:
    """The weights of a model of the same interface that is wrong."""
    head, bias = weights["head"], weights["bias"]
    if way == "opposite":
        return {**weights, "head": -head, "bias": -bias}
    if way == "constant":
        return {**weights, "head": np.zeros_like(head)}
    if head.shape[1] == 1:
        return {**weights, "head": np.roll(head, 1, axis=0)}
    return {**weights, "head": np.roll(head, 1, axis=1), "bias": np.roll(bias, 1)}


def save(kind: Kind, weights: dict[str, np.ndarray], path: Path) -> None:
    """Write the model: a body, a head, and the embedding between them where it is an output."""
    info = helper.make_tensor_value_info
    tensors = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    out = "z" if kind.activation else kind.judged
    if kind.body == "table":
        x = info("x", TensorProto.FLOAT, ["N", FEATURES])
        tensors.append(numpy_helper.from_array(np.array([-1, *kind.shape], np.int64), "shape"))
        nodes = [
            helper.make_node("MatMul", ["x", "body"], ["hidden"]),
            helper.make_node("Tanh", ["hidden"], ["features"]),
            helper.make_node("Gemm", ["features", "head", "bias"], ["flat"]),
            helper.make_node("Reshape", ["flat", "shape"], [out]),
        ]
    elif kind.body == "ids":
        x = info("x", TensorProto.INT64, ["N", LENGTH])
        nodes = [
            helper.make_node("Gather", ["body", "x"], ["features"]),
            helper.make_node("MatMul", ["features", "head"], ["product"]),
            helper.make_node("Add", ["product", "bias"], [out]),
        ]
    else:
        x = info("x", TensorProto.FLOAT, ["N", 1, SIDE, SIDE])
        tensors = [tensor for tensor in tensors if tensor.name != "head"]
        kernel = np.ascontiguousarray(weights["head"].T[:, :, None, None])
        tensors.append(numpy_helper.from_array(kernel, "head"))
        nodes = [
            helper.make_node("Conv", ["x", "body"], ["hidden"], pads=[1, 1, 1, 1]),
            helper.make_node("Tanh", ["hidden"], ["features"]),
            helper.make_node("Conv", ["features", "head", "bias"], [out]),
        ]
    if kind.activation:
        nodes.append(helper.make_node(kind.activation, [out], [kind.judged]))
    outputs = [info(kind.judged, TensorProto.FLOAT, ["N", *kind.shape])]
    if kind.extra:
        outputs.insert(0 if kind.extra == "first" else 1, info("features", TensorProto.FLOAT, ["N", HIDDEN]))
    graph = helper.make_graph(nodes, "graph", [x], outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def samples_of(kind: Kind, generator: np.random.Generator) -> np.ndarray:
    """All inputs, the samples along the first axis."""
    if kind.body == "ids":
        return generator.integers(0, 50, (N, LENGTH))
    shape = (N, FEATURES) if kind.body == "table" else (N, 1, SIDE, SIDE)
    return generator.normal(0, 1, shape).astype(np.float32)


def outputs_of(kind: Kind, path: Path, x: np.ndarray) -> np.ndarray:
    """The judged output of a file for each sample by itself, by ONNX Runtime alone."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run([kind.judged], {"x": x[row : row + 1]})[0] for row in range(len(x))])


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this package in a folder."""
    command = [sys.executable, "-c", "from bench.cli.main import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def tried(name: str, kind: Kind, folder: Path) -> dict[str, Any]:
    """All that is shown of a kind: metrics beside scikit-learn's, and what the guard passes."""
    generator = np.random.default_rng(sorted(KINDS).index(name))
    weights, x = weights_of(kind, generator), samples_of(kind, generator)
    model, data = folder / f"{name}.onnx", folder / f"{name}.npz"
    save(kind, weights, model)
    y = kind.targets(outputs_of(kind, model, x), generator)
    np.savez(data, x=x, targets=y)
    options = ["--dataset", data.name, *kind.options]
    ran = bench(folder, "run", "--model", model.name, *CELLS, *options, "--results", "results", "--budget", "2s")
    shown = bench(folder, "show", f"{name}/*", "--results", "results", "--format", "csv").stdout
    rows = {row["variant"]: row for row in csv.DictReader(io.StringIO(shown))}
    if not rows.get("raw", {}).get("metric"):
        raise SystemExit(f"{name}: no row of the file as it is: {ran.stdout}{ran.stderr}")
    found: dict[str, Any] = {
        "judged_as": rows["raw"]["judged_as"],
        "metric": float(rows["raw"]["metric"]),
        "right": kind.metric(outputs_of(kind, model, x[HELD_OUT]), y[HELD_OUT]),
        "warned": "WARNING" in ran.stderr,
    }
    pick = ["pick", name, "--tolerance", "95%", "--results", "results", "--output", "pick"]
    picked = bench(folder, *pick)
    recipe = json.loads((folder / "pick" / "deployment.json").read_text()) if picked.returncode == 0 else {}
    found["picked"] = recipe.get("cell", picked.stdout + picked.stderr)
    if recipe:
        saved = folder / "pick" / recipe["artifact"]["file"]
        found["picked_metric"] = float(recipe["measured"]["metric"])
        found["picked_right"] = kind.metric(outputs_of(kind, saved, x[HELD_OUT]), y[HELD_OUT])
    for way in ("itself", *PLANTED):
        other = folder / f"{name}_{way}.onnx"
        save(kind, weights if way == "itself" else planted(kind, weights, way), other)
        limits = ["--tolerance", "60%", "--launches", "1", "--budget", "5s"]
        checked = bench(folder, "check", model.name, other.name, *options, *limits)
        is_refused = checked.returncode == 1 and ("too much" in checked.stdout or "broken" in checked.stdout)
        found[way] = (
            "passed" if checked.returncode == 0 else "refused" if is_refused else checked.stdout + checked.stderr
        )
    if kind.refused:
        change, says = kind.refused
        np.savez(data, x=x, targets=change(y))
        refused = bench(folder, "run", "--model", model.name, *options, "--dry-run")
        found["refused"] = refused.returncode == 2 and says in refused.stderr
    return found


def faults_of(name: str, found: dict[str, Any]) -> list[str]:
    """What is wrong with the result of a kind."""
    faults = []
    for ours, right in (("metric", "right"), ("picked_metric", "picked_right")):
        if ours not in found or not np.isclose(found[ours], found[right], rtol=1e-4, atol=1e-6):
            faults.append(f"{name}: {ours} {found.get(ours)} beside {found.get(right)} of scikit-learn")
    if found["itself"] != "passed":
        faults.append(f"{name}: against itself: {found['itself']}")
    faults += [f"{name}: {way}: {found[way]}" for way in PLANTED if found[way] != "refused"]
    if found["warned"]:
        faults.append(f"{name}: warned of chance")
    if found.get("refused") is False:
        faults.append(f"{name}: wrong targets were not refused")
    return faults


def main(arguments: Sequence[str] | None = None) -> None:
    """Try each kind and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what is made and found, and kept; a finished kind is not run again")
    parser.add_argument("--only", nargs="*", choices=sorted(KINDS), default=None)
    asked = parser.parse_args(arguments)
    failures: list[str] = []
    for name in asked.only or KINDS:
        kept = asked.folder / name / "found.json"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(tried(name, KINDS[name], kept.parent), indent=1))
        found = json.loads(kept.read_text())
        picked = (
            f"picked {found.get('picked_metric', float('nan')):.6g} ({found.get('picked_right', float('nan')):.6g})"
        )
        checks = ", ".join(f"{way} {found[way]}" for way in ("itself", *PLANTED))
        print(
            f"{name:25} {found['metric']:.6g} (scikit-learn {found['right']:.6g}), {picked}; check: {checks}",
            flush=True,
        )
        failures += faults_of(name, found)
    instrument.finish(failures)


if __name__ == "__main__":
    main()
