"""Folders of transformers and sentence-transformers that hurt: what they name is checked before anything opens it."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from bench.api.errors import InputError
from bench.tasks import pretrained_folder
from bench.tasks.formats import module_of
from bench.tasks.options import Asked
from fuzz.targets import pretrained as small

pytestmark = pytest.mark.framework("torch")
ANY: dict[str, Any] = {}


class Proof:
    """Whoever loads its pickle makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the weights of small models, safetensors files beside it and pickles within."""
    weights, dense = small._weights()
    path = tmp_path / "model"
    for folder in (path / "sub", path / "2_Dense", path / "1_Pooling"):
        folder.mkdir(parents=True)
    for target in (path / "model.safetensors", tmp_path / "outside.safetensors", path / "sub" / "in.safetensors"):
        target.write_bytes(weights)
    (path / "2_Dense" / "model.safetensors").write_bytes(dense)
    for name in ("adapter_model.bin", "pytorch_model.bin", "b.bin"):
        (path / name).write_bytes(pickle.dumps(Proof(tmp_path / "executed")))
    return path


def examined(path: Path, *, module: str = "transformers", trust: bool = False) -> Any:
    task = path.parent / "task"
    task.mkdir(exist_ok=True)
    return module_of(module).examine(path, task, Asked(trust=trust))


def with_config(path: Path, **more: Any) -> None:
    path.joinpath("config.json").write_text(json.dumps({**small.TEXTS, **more}))


def write_index(path: Path, name: Any) -> None:
    path.write_text(json.dumps({"metadata": {}, "weight_map": {"classifier.bias": name}}))


def sentences(path: Path, modules: Any = small.MODULES, pooling: Any = ANY, dense: Any = small.DENSE) -> None:
    with_config(path)
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (path / "2_Dense" / "config.json").write_text(json.dumps(dense))


def test_good_folders_are_opened(place: Path) -> None:
    with_config(place)
    assert examined(place).outputs[0].shape == ("batch", 3)
    with_config(place, transformers_weights="model.safetensors")
    assert examined(place).outputs[0].shape == ("batch", 3)
    with_config(place, transformers_weights="w.safetensors.index.json")
    write_index(place / "w.safetensors.index.json", "model.safetensors")
    assert examined(place).outputs[0].shape == ("batch", 3)
    sentences(place)
    assert examined(place, module="sentence_transformers").outputs[0].shape == ("batch", 4)


@pytest.mark.parametrize(
    "named",
    [
        *("sub/m.safetensors.index.json", "sub/in.safetensors", "../outside.safetensors", "/etc/passwd", "sub", ""),
        *("./model.safetensors", "model.safetensors\0", "x.safetensors/../model.safetensors"),
    ],
)
def test_weights_elsewhere_are_refused(named: str, place: Path) -> None:
    write_index(place / "sub" / "m.safetensors.index.json", "../outside.safetensors")
    with_config(place, transformers_weights=named)
    with pytest.raises(InputError, match=r"its config\.json names .*files in the folder itself"):
        examined(place)


@pytest.mark.parametrize(
    "named", ["b.bin", "../outside.safetensors", 5, None, ["model.safetensors"], "a/b.safetensors"]
)
def test_an_index_that_names_other_files_is_refused(named: Any, place: Path) -> None:
    with_config(place, transformers_weights="w.safetensors.index.json")
    write_index(place / "w.safetensors.index.json", named)
    with pytest.raises(
        InputError, match=r"its w\.safetensors\.index\.json names .*; weights are \.safetensors files in"
    ):
        examined(place)
    write_index(place / "w.safetensors.index.json", "gone.safetensors")
    with pytest.raises(InputError, match=r"names 'gone\.safetensors', which is not in the folder"):
        examined(place)


@pytest.mark.parametrize("name", ["adapter_model.bin", "b.bin"])
def test_pickles_that_are_named_take_trust(name: str, place: Path) -> None:
    """With trust, PyTorch reads them by its own restricted reader, which refuses this one."""
    with_config(place, transformers_weights=name)
    with pytest.raises(InputError, match=r"its weights are pickled .*; add --trust"):
        examined(place)
    (place / "model.safetensors").unlink()
    with_config(place)
    with pytest.raises(InputError, match=r"its weights are pickled .*; add --trust"):
        examined(place)
    assert not (place.parent / "executed").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "preprocessor_config.json"])
def test_links_out_of_the_folder_are_refused_and_those_of_the_hub_are_not(name: str, place: Path) -> None:
    with_config(place)
    (place / "preprocessor_config.json").write_text("{}")
    (place / name).rename(place.parent / "linked")
    (place / name).symlink_to(place.parent / "linked")
    with pytest.raises(InputError, match=rf"its {name} leads out of its folder.*; copy the file there"):
        examined(place)
    blobs, snapshot = place.parent / "blobs", place.parent / "snapshots" / "revision"
    blobs.mkdir()
    snapshot.parent.mkdir()
    (place.parent / "linked").rename(blobs / "linked")
    (place / name).unlink()
    (place / name).symlink_to(Path("../../blobs/linked"))
    place.rename(snapshot)
    (place.parent / "snapshots" / "task").mkdir()
    assert examined(snapshot).outputs[0].shape == ("batch", 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("architectures", value) for value in (5, "BertModel", {"a": 1}, [5], [None])),
        *(("auto_map", value) for value in (5, ["mine.Mine"], "mine.Mine")),
        *(("model_type", value) for value in (5, ["bert"], {"a": 1}, True)),
        *(("transformers_weights", value) for value in (5, ["model.safetensors"], {})),
    ],
)
def test_a_field_of_another_type_is_named(field: str, value: Any, place: Path) -> None:
    with_config(place, **{field: value})
    with pytest.raises(InputError, match=rf"^its config\.json has .* for {field}; .* (is|are) allowed$"):
        examined(place)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("backbone", "/etc"),
        ("backbone", "local-dir:/etc"),
        ("backbone", "someone/resnet"),
        ("architecture", "hf-hub:someone/resnet"),
        ("attn_implementation", "kernels-community/flash"),
        ("_attn_implementation", "someone/kernel"),
        ("experts_implementation", "../kernel"),
    ],
)
def test_models_and_kernels_elsewhere_are_refused(field: str, value: str, place: Path) -> None:
    for more in ({field: value}, {"vision_config": {field: value}}, {"parts": [{field: value}]}):
        with_config(place, **more)
        with pytest.raises(
            InputError, match=rf"its config\.json names .* for {field}, which is elsewhere; nothing is fetched"
        ):
            examined(place)


@pytest.mark.parametrize(
    "name", ["AutoModel", "AutoTokenizer", "BertConfig", "pipeline", "__version__", "models", "Qwen_"]
)
def test_a_class_that_is_no_model_is_refused(name: str, place: Path) -> None:
    with_config(place, architectures=[name])
    with pytest.raises(InputError, match=rf"its config\.json names {name}, which "):
        examined(place)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", 2**31),
        ("num_hidden_layers", 10_001),
        ("num_hidden_layers", -3),
        ("num_labels", 10**9),
        ("num_labels", 2**17 + 1),
        ("vocab_size", 10**12),
        ("hidden_size", 2**40),
        ("intermediate_size", 10**400),
        ("max_position_embeddings", 2**33),
        ("num_hidden_layers", float("inf")),
        ("num_attention_heads", float("nan")),
        ("n_layer", 2**31),
        ("depths", [2, 2**31]),
    ],
)
def test_more_than_the_weights_hold_is_refused_before_it_is_built(field: str, value: Any, place: Path) -> None:
    with_config(place, **{field: value})
    begin = time.process_time()
    with pytest.raises(InputError, match=rf"its config\.json has .* for {field}"):
        examined(place)
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"num_hidden_layers": 5000}, "modules"),
        ({"vocab_size": 2**23}, "weights"),
        ({"hidden_size": 2**14, "intermediate_size": 2**14}, "weights"),
        ({"max_position_embeddings": 2**24}, "weights"),
    ],
)
def test_parts_are_counted_while_they_are_built(more: dict[str, int], what: str, place: Path) -> None:
    """Fields that are within their bounds and make a large model together: nothing is allocated for it."""
    with_config(place, **more)
    with pytest.raises(
        InputError, match=rf"its config\.json makes more than [\d,]+ {what}, and its files hold [\d,]+ weig"
    ):
        examined(place)


def test_no_weights_are_so_many_that_names_of_all_classes_are_made() -> None:
    files = (Path("model.safetensors"),)
    weights = pretrained_folder.Weights(files=files, is_pickled=False, num_tensors=9, num_elements=2**40)
    pretrained_folder.check_counts({"num_labels": 2**20}, weights)
    with pytest.raises(InputError, match=r"for num_labels, .* up to 1,048,576 are built"):
        pretrained_folder.check_counts({"num_labels": 2**20 + 1}, weights)


def test_a_weight_of_another_size_is_named(place: Path) -> None:
    with_config(place, num_labels=5)
    with pytest.raises(InputError, match=r"its weight classifier\.bias is 3, and its config\.json makes it 5"):
        examined(place)


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\xff" * 16, b"PK\x03\x04", pickle.dumps(5)])
def test_damaged_weights_are_named(content: bytes, place: Path) -> None:
    with_config(place)
    (place / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"its model\.safetensors is no whole safetensors file"):
        examined(place)


@pytest.mark.parametrize("size", [0, -4, 10**6, "large", {"height": 10**9, "width": 10**9}])
def test_images_of_no_size_are_refused(size: Any, place: Path) -> None:
    (place / "config.json").write_text(json.dumps(small.IMAGES))
    (place / "preprocessor_config.json").write_text(json.dumps({"size": size}))
    if size == "large":
        assert examined(place).inputs[0].shape == ("batch", 3, 32, 32)
    else:
        with pytest.raises(
            InputError, match=r"its files say that its input 'pixel_values' is .*; sizes from 1 and 67,108,8"
        ):
            examined(place)


@pytest.mark.parametrize(
    "modules",
    [
        5,
        {"a": 1},
        [5],
        [{"idx": 0, "type": "Transformer"}],
        [{"idx": "0", "type": "Transformer", "path": ""}],
        [{"idx": 0, "type": 5, "path": ""}],
        [{"idx": 0, "type": "Transformer", "path": None}],
        [{"idx": 0, "type": "Transformer", "path": "\0"}],
    ],
)
def test_modules_of_other_types_are_named(modules: Any, place: Path) -> None:
    sentences(place, modules=modules)
    with pytest.raises(InputError, match=r"^its modules\.json (has|holds) "):
        examined(place, module="sentence_transformers")


@pytest.mark.parametrize("kind", ["Transformer", "Pooling"])
def test_a_second_module_of_a_kind_is_refused(kind: str, place: Path) -> None:
    again = {**small.MODULES[1], "idx": 9, "type": f"sentence_transformers.models.{kind}"}
    sentences(place, modules=[*small.MODULES[:2], again])
    with pytest.raises(InputError, match=rf"its modules\.json has a second {kind}; behind both, Normalize, Dense"):
        examined(place, module="sentence_transformers")


@pytest.mark.parametrize("path", ["../outside", "/etc", "1_Pooling/../..", "link"])
def test_modules_elsewhere_are_refused(path: str, place: Path) -> None:
    (place / "link").symlink_to("/etc")
    sentences(place, modules=[small.MODULES[0], {**small.MODULES[1], "path": path}])
    with pytest.raises(InputError, match="leads out of its folder"):
        examined(place, module="sentence_transformers")


@pytest.mark.parametrize(
    ("pooling", "dense", "says"),
    [
        ([], {}, r"its 1_Pooling/config\.json holds \[\]; an object is allowed"),
        ({"pooling_mode": 5}, {}, "its pooling mode 5 is not known here"),
        ({"pooling_mode": [["mean"]]}, {}, r"its pooling mode \['mean'\] is not known here"),
        ({"pooling_mode": {"a": 1}}, {}, "its pooling mode {'a': 1} is not known here"),
        ({"pooling_mode": ["mean", "mean"]}, {}, "names a mode twice"),
        ({"module_input_name": [5]}, {}, r"its Pooling works with \[5\]"),
        ({}, {"in_features": "16"}, "its 2_Dense has '16' for in_features; a whole number is allowed"),
        ({}, {"in_features": 10**12}, "its 2_Dense has in_features 1,000,000,000,000 and out_features 4, and its"),
        ({}, {"out_features": -1}, r"out_features -1, and its linear\.weight is \(4, 16\)"),
        ({}, {"out_features": True}, "its 2_Dense has True for out_features"),
        ({}, {"bias": "yes"}, "its 2_Dense has 'yes' for bias; true or false is allowed"),
        ({}, {"activation_function": 5}, "its 2_Dense has 5 for activation_function; a text is allowed"),
        ({}, {"activation_function": "torch.nn.modules.linear.Linear"}, "cannot be made without settings"),
        ({}, {"activation_function": "os.system"}, "is none of PyTorch's"),
    ],
)
def test_settings_of_modules_are_checked_before_they_are_built(
    pooling: Any, dense: Any, says: str, place: Path
) -> None:
    sentences(place, pooling=pooling, dense={**small.DENSE, **dense})
    with pytest.raises(InputError, match=says):
        examined(place, module="sentence_transformers")


def test_a_pickled_module_takes_trust(place: Path) -> None:
    sentences(place)
    (place / "2_Dense" / "model.safetensors").rename(place / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(InputError, match="its weights are pickled"):
        examined(place, module="sentence_transformers")


def test_json_that_hurts_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for content in (b"", b"[" * 5000, b"\xff\xfe", b"5", b"[]", b'"config"', b'{"a": ' + b"9" * 5000 + b"}"):
        (tmp_path / "config.json").write_bytes(content)
        with pytest.raises(InputError, match=r"^its config\.json (cannot be read|holds .*; an object is allowed)"):
            pretrained_folder.config_of(tmp_path)
