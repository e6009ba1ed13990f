"""Twenty small models of several kinds, each as the file that a user would give `bench run --model`.

A model is made in a process of its own (`python own_model_files.py NAME FOLDER`), because a framework may crash, or
take the memory that the measured processes need. The folder gets the file, its data where it has some, and `feeds.npz`
and `expected.npz`: the inputs of one sample, and what the framework that made the model gives for them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples" / "own"
FEEDS, EXPECTED, MADE = "feeds.npz", "expected.npz", "made.json"
Arrays = Mapping[str, np.ndarray]
Made = tuple[str, list[str], Arrays, Sequence[np.ndarray]]
"""The name of the file, further options of `bench run`, the inputs of one sample by name, and the outputs in order."""


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def by_onnx(path: Path, feeds: Arrays) -> Sequence[np.ndarray]:
    """The outputs of an ONNX file in ONNX Runtime with its defaults.

    Without its optimizations an int8 file gives others: a node that a product and its scales became rounds otherwise.
    """
    import onnxruntime

    found: Sequence[np.ndarray] = onnxruntime.InferenceSession(path).run(None, dict(feeds))
    return found


def hand_built(
    path: Path, nodes: Sequence[Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any], **weights: Any
) -> None:
    """Write an ONNX file of nodes; the shapes are of float32 arrays."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def infos(ports: Mapping[str, Any]) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items()]

    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(list(nodes), path.stem, infos(inputs), infos(outputs), tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node of ONNX; names are separated by spaces."""
    from onnx import helper

    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def by_torch_onnx(home: Path, name: str, model: Any, feeds: Arrays, axes: Mapping[str, Any], **more: Any) -> Made:
    """A PyTorch module exported by `torch.onnx`, with its own outputs."""
    import torch

    example = tuple(torch.from_numpy(array) for array in feeds.values())
    options = {"input_names": list(feeds), "dynamo": False, **more}
    torch.onnx.export(model, example, str(home / name), dynamic_axes=dict(axes), **options)
    with torch.no_grad():
        return name, [], feeds, [model(*example).numpy()]


def image_network(channels: int, classes: int, blocks: int) -> Any:
    """Residual blocks of convolutions, and a class of the mean."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both = nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
                nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
            )  # fmt: skip

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + self.both(x))

    layers = [nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.ReLU(), *(Block() for _ in range(blocks))]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)).eval()


def perceptron(inputs: int, hidden: int, outputs: int) -> Any:
    """A network of two hidden layers in PyTorch."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    wide = nn.Linear(hidden, hidden)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), wide, nn.Tanh(), nn.Linear(hidden, outputs)).eval()


def tiny(home: Path) -> Made:
    """One product by hand, of microseconds."""
    weights = {"w": floats(4, 3), "b": floats(3, seed=1)}
    nodes = [node("Gemm", "x w b", "y")]
    hand_built(home / "tiny.onnx", nodes, {"x": ["N", 4]}, {"y": ["N", 3]}, **weights)
    feeds = {"x": floats(1, 4, seed=2)}
    return "tiny.onnx", [], feeds, [feeds["x"] @ weights["w"] + weights["b"]]


def fixed_batch(home: Path) -> Made:
    """Convolutions by hand whose batch is 1."""
    nodes = [
        node("Conv", "x first", "a", pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("Conv", "b second", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("GlobalAveragePool", "c", "d"),
        node("Flatten", "d", "e"),
        node("Softmax", "e", "y", axis=1),
    ]
    weights = {"first": floats(16, 3, 3, 3) / 5, "second": floats(8, 16, 3, 3, seed=1)}
    feeds, path = {"x": floats(1, 3, 32, 32, seed=2)}, home / "fixed_batch.onnx"
    hand_built(path, nodes, {"x": [1, 3, 32, 32]}, {"y": [1, 8]}, **weights)
    return path.name, [], feeds, by_onnx(path, feeds)


def two_inputs(home: Path) -> Made:
    """Two inputs and two outputs by hand."""
    nodes = [
        node("MatMul", "a wa", "pa"),
        node("MatMul", "b wb", "pb"),
        node("Add", "pa pb", "sum"),
        node("Tanh", "sum", "mixed"),
        node("MatMul", "mixed head", "scores"),
    ]
    weights = {"wa": floats(64, 128) / 8, "wb": floats(32, 128, seed=1) / 6, "head": floats(128, 10, seed=2) / 11}
    feeds, path = {"a": floats(1, 64, seed=3), "b": floats(1, 32, seed=4)}, home / "two_inputs.onnx"
    hand_built(path, nodes, {"a": ["N", 64], "b": ["N", 32]}, {"mixed": ["N", 128], "scores": ["N", 10]}, **weights)
    return path.name, [], feeds, by_onnx(path, feeds)


def tokens(home: Path) -> Made:
    """Tokens of int64, of any number, by `torch.onnx`."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    layers = [nn.Embedding(1000, 64), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(64, 9)]
    feeds = {"tokens": np.random.default_rng(0).integers(0, 1000, (1, 16))}
    axes = {"tokens": {0: "batch", 1: "length"}, "tags": {0: "batch", 1: "length"}}
    return by_torch_onnx(home, "tokens.onnx", nn.Sequential(*layers).eval(), feeds, axes, output_names=["tags"])


def half(home: Path) -> Made:
    """A network of images in float16 throughout."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    feeds = {"image": floats(1, 3, 32, 32)}
    by_torch_onnx(home, "wide.onnx", image_network(16, 10, 1), feeds, {"image": {0: "N"}})
    onnx.save(convert_float_to_float16(onnx.load(home / "wide.onnx")), home / "half.onnx")
    (home / "wide.onnx").unlink()
    narrow = {name: array.astype(np.float16) for name, array in feeds.items()}
    return "half.onnx", [], narrow, by_onnx(home / "half.onnx", narrow)


def int8(home: Path) -> Made:
    """A network of images that ONNX Runtime has quantized to int8, as QDQ."""
    from onnxruntime import quantization

    feeds = {"image": floats(1, 3, 32, 32)}
    by_torch_onnx(home, "wide.onnx", image_network(16, 10, 2), feeds, {"image": {0: "N"}})

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter([{"image": floats(1, 3, 32, 32, seed=seed)} for seed in range(8)])

        def get_next(self) -> Any:
            return next(self.left, None)

    quantization.quantize_static(home / "wide.onnx", home / "int8.onnx", Samples())
    (home / "wide.onnx").unlink()
    return "int8.onnx", [], feeds, by_onnx(home / "int8.onnx", feeds)


def large(home: Path) -> Made:
    """A network of images with 2.9 GMAC."""
    feeds = {"image": floats(1, 3, 224, 224)}
    return by_torch_onnx(home, "large.onnx", image_network(64, 100, 3), feeds, {"image": {0: "N"}})


def labels(home: Path) -> Made:
    """A classifier by the newer exporter of `torch.onnx`, with labelled samples."""
    import torch

    x, model = floats(500, 20, seed=1), perceptron(20, 64, 5)
    with torch.no_grad():
        scores = model(torch.from_numpy(x)).numpy()
    wrong = np.random.default_rng(2).random(len(x)) < 0.1
    np.savez(home / "labels.npz", x=x, targets=np.where(wrong, 0, scores.argmax(1)))
    sizes = {0: torch.export.Dim("N")}
    program = torch.onnx.export(
        model, (torch.from_numpy(x[:2]),), input_names=["x"], dynamic_shapes=(sizes,), dynamo=True
    )
    assert program is not None
    program.save(str(home / "labels.onnx"))
    return "labels.onnx", ["--dataset", "labels.npz"], {"x": x[:1]}, [scores[:1]]


def values(home: Path) -> Made:
    """A regression by `torch.onnx`, with right values."""
    x = floats(500, 16, seed=1)
    found = by_torch_onnx(home, "values.onnx", perceptron(16, 128, 1), {"x": x}, {"x": {0: "N"}})
    outputs = found[3][0]
    np.savez(home / "values.npz", x=x, targets=outputs + 0.1 * outputs.std() * floats(*outputs.shape, seed=2))
    return "values.onnx", ["--dataset", "values.npz"], {"x": x[:1]}, [outputs[:1]]


def _table() -> tuple[np.ndarray, np.ndarray]:
    """A table of numbers, and a class for each row."""
    table = floats(600, 12)
    return table, (table[:, 0] + table[:, 1] * table[:, 2] > 0).astype(np.int64)


def forest(home: Path) -> Made:
    """A forest of scikit-learn by skl2onnx, with the labels of its rows."""
    import skl2onnx
    from sklearn.ensemble import RandomForestClassifier

    table, label = _table()
    trees = RandomForestClassifier(n_estimators=50, max_depth=8, random_state=0).fit(table[:300], label[:300])
    options = {id(trees): {"zipmap": False}}
    proto = skl2onnx.to_onnx(trees, table[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    (home / "forest.onnx").write_bytes(proto.SerializeToString())
    np.savez(home / "forest.npz", X=table[300:], targets=label[300:])
    expected = [trees.predict(table[-1:]), trees.predict_proba(table[-1:]).astype(np.float32)]
    return "forest.onnx", ["--dataset", "forest.npz"], {"X": table[-1:]}, expected


def boosting(home: Path) -> Made:
    """A pipeline of scikit-learn as a pickle."""
    import joblib
    from sklearn import ensemble, pipeline, preprocessing

    table, label = _table()
    steps = preprocessing.StandardScaler(), ensemble.GradientBoostingClassifier(n_estimators=40, random_state=0)
    found = pipeline.make_pipeline(*steps).fit(table[:300], label[:300])
    joblib.dump(found, home / "boosting.joblib")
    expected = [found.predict_proba(table[-1:]).astype(np.float32)]
    return "boosting.joblib", ["--trust"], {"X": table[-1:]}, expected


def squeezenet(home: Path) -> Made:
    """A file of the test data of the package onnx."""
    import onnx

    path = home / "squeezenet.onnx"
    shutil.copyfile(Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx", path)
    weights = {tensor.name for tensor in onnx.load(path).graph.initializer}
    (name,) = (port.name for port in onnx.load(path).graph.input if port.name not in weights)
    feeds = {name: floats(1, 3, 224, 224)}
    return path.name, [], feeds, by_onnx(path, feeds)


def iris(home: Path) -> Made:
    """The classifier of the package onnxruntime, of IR version 3, which the corpus has, too."""
    import onnxruntime

    path, feeds = home / "iris.onnx", {"float_input": floats(3, 2)}
    shutil.copyfile(Path(onnxruntime.__file__).parent / "datasets" / "logreg_iris.onnx", path)
    return path.name, [], feeds, by_onnx(path, feeds)[:1]


def classifier(home: Path) -> Made:
    """The example of the documents: a Python file of PyTorch, and another one with samples and a metric."""
    import torch

    for name in ("classifier.py", "points.py"):
        shutil.copyfile(EXAMPLES / name, home / name)
    sys.path.insert(0, str(home))
    model, feeds = __import__("classifier").build(), {"points": np.array([[0.9, 0.6]], np.float32)}
    with torch.no_grad():
        return "classifier.py", ["--dataset", "points.py"], feeds, [model(torch.from_numpy(feeds["points"])).numpy()]


def scripted(home: Path) -> Made:
    """TorchScript, with the shape that it does not say."""
    import torch

    model, feeds = image_network(16, 10, 2), {"input": floats(1, 3, 64, 64)}
    torch.jit.script(model).save(str(home / "scripted.pt"))
    with torch.no_grad():
        outputs = [model(torch.from_numpy(feeds["input"])).numpy()]
    return "scripted.pt", ["--shape", "input=1x3x64x64", "--trust"], feeds, outputs


def exported(home: Path) -> Made:
    """A recurrent network as `torch.export` saves it, of any batch."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.GRU(24, 48, batch_first=True), nn.Linear(48, 6)

        def forward(self, steps: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(steps)[0][:, -1])

    model, feeds = Last().eval(), {"steps": floats(1, 12, 24)}
    shapes = {"steps": {0: torch.export.Dim("N", max=64)}}
    torch.export.save(
        torch.export.export(model, (torch.zeros(2, 12, 24),), dynamic_shapes=shapes), home / "exported.pt2"
    )
    with torch.no_grad():
        return "exported.pt2", ["--trust"], feeds, [model(torch.from_numpy(feeds["steps"])).numpy()]


def _keras() -> Any:
    """A small network of images in Keras."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((32, 32, 3), name="image"),
            layers.Conv2D(16, 3, activation="relu", padding="same"),
            layers.SeparableConv2D(32, 3, strides=2, activation="relu", padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def _of_keras(model: Any, name: str, options: list[str], shape: tuple[int, ...]) -> Made:
    array = floats(1, *shape)
    return name, options, {"image": array}, [np.asarray(model(array, training=False))]


def saved(home: Path) -> Made:
    """A SavedModel of TensorFlow."""
    model = _keras()
    model.export(home / "saved")
    return _of_keras(model, "saved", ["--trust"], (32, 32, 3))


def sequential(home: Path) -> Made:
    """A file of Keras."""
    model = _keras()
    model.save(home / "sequential.keras")
    return _of_keras(model, "sequential.keras", [], (32, 32, 3))


def flat(home: Path) -> Made:
    """A file of TFLite, whose batch is 1."""
    import tensorflow as tf

    model = _keras()
    (home / "flat.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    return _of_keras(model, "flat.tflite", [], (32, 32, 3))


def recurrent(home: Path) -> Made:
    """A recurrent network of Keras by tf2onnx."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import onnx
    import tensorflow as tf
    import tf2onnx

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((20, 8)), keras.layers.LSTM(64), keras.layers.Dense(4)])
    spec = (tf.TensorSpec((None, 20, 8), tf.float32, name="image"),)
    function = tf.function(lambda x: model(x, training=False), input_signature=spec)
    onnx.save(tf2onnx.convert.from_function(function, input_signature=spec, opset=17)[0], home / "recurrent.onnx")
    return _of_keras(model, "recurrent.onnx", [], (20, 8))


MODELS: tuple[Callable[[Path], Made], ...] = (
    tiny, fixed_batch, two_inputs, tokens, half, int8, large, labels, values, forest, boosting, squeezenet, iris,
    classifier, scripted, exported, saved, sequential, flat, recurrent,
)  # fmt: skip
KINDS = {make.__name__: (make.__doc__ or "").splitlines()[0].rstrip(".") for make in MODELS}
"""What each model is, by its name."""


def main() -> None:
    """Make one model in a folder."""
    name, home = sys.argv[1], Path(sys.argv[2])
    home.mkdir(parents=True, exist_ok=True)
    file, options, feeds, expected = {make.__name__: make for make in MODELS}[name](home)
    np.savez(home / FEEDS, *feeds.values())
    np.savez(home / EXPECTED, *expected)
    (home / MADE).write_text(json.dumps({"file": file, "options": options}))


if __name__ == "__main__":
    main()
