"""ALBERT-base: its size is the published one, its weights are made the same every time, and the builders agree."""

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

from bench.api import cache
from bench.api.errors import InputError
from bench.plugins import catalog

NUM_PARAMETERS = 11_683_584
SHA256 = "b5092e9cb06689a70e00700b9f90cb3d3024b22e99a7fe57a36ec6ff6d48aab3"
"""Of all weights by name: numpy does not promise the same random numbers for ever."""
SMALL = {
    "vocab_size": 50,
    "embedding_size": 8,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_attention_heads": 3,
    "num_hidden_layers": 4,
    "max_position_embeddings": 20,
}
LABELS = {"id2label": {str(number): str(number) for number in range(5)}}


@pytest.fixture(scope="module")
def task():
    return catalog.task("albert_base")


@pytest.fixture(scope="module")
def config(task):
    return json.loads(task.config_path.read_text())


@pytest.fixture(scope="module")
def weights(task):
    return task.module("weights")


@pytest.fixture(scope="module")
def small(task, config, weights, tmp_path_factory):
    """Both frameworks' builders, by source, with a configuration and weights of a few thousand numbers."""
    from safetensors.numpy import save_file

    pytest.importorskip("transformers")
    pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp("small")
    classifier = SMALL | LABELS | {"architectures": ["AlbertForSequenceClassification"]}
    random = np.random.default_rng(3)
    built = {}
    for name, changes in (("encoder", SMALL), ("classifier", classifier)):
        tensors = weights.make(config | changes | {"initializer_range": 0.2})
        if name == "classifier":
            tensors = {f"albert.{key}": tensor for key, tensor in tensors.items()}
            tensors["classifier.weight"] = random.standard_normal((5, 24), dtype=np.float32)
            tensors["classifier.bias"] = random.standard_normal(5, dtype=np.float32)
        paths = folder / f"{name}.safetensors", folder / f"{name}.json"
        save_file(tensors, paths[0])
        paths[1].write_text(json.dumps(config | changes))
        for source in task.sources:
            built[name, source] = task.module(f"{source}_model", of="albert").build(*paths)
    return SimpleNamespace(folder=folder, built=built)


def texts(num_samples=3, num_tokens=12):
    """Token ids and their mask; all but the first are padded."""
    random = np.random.default_rng(4)
    mask_NT = (np.arange(num_tokens) < num_tokens - 2 * np.arange(num_samples)[:, None]).astype(np.int64)
    return random.integers(1, 50, (num_samples, num_tokens)) * mask_NT, mask_NT


def run(model, source, *inputs):
    """Outputs as a list of arrays."""
    if source == "torch":
        import torch

        with torch.no_grad():
            outputs = model(*map(torch.from_numpy, inputs))
    else:
        outputs = model(*inputs)
    return [np.asarray(output) for output in (outputs if isinstance(outputs, tuple) else [outputs])]


def test_number_of_parameters_is_that_of_the_published_model(config, weights):
    assert sum(np.prod(shape) for shape in weights.shapes(config).values()) == NUM_PARAMETERS


def test_weights_are_the_same_each_time(task, tmp_path, monkeypatch):
    expected = cache.file_digest(task.weights_path)
    made_at = task.weights_path.stat().st_mtime_ns
    assert task.weights_path.stat().st_mtime_ns == made_at  # once in a cache
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    assert task.weights_path.is_relative_to(tmp_path)
    assert cache.file_digest(task.weights_path) == expected


def test_no_weight_can_be_forgotten_unnoticed(config, weights):
    for name, tensor in weights.make(config | SMALL).items():
        scale = name.endswith(("LayerNorm.weight", "layer_norm.weight"))
        assert tensor.dtype == np.float32
        assert tensor.mean() == pytest.approx(1 if scale else 0, abs=0.015), name
        assert 0.01 < tensor.std() < 0.03, name
        assert len(np.unique(tensor)) == tensor.size


@pytest.mark.parametrize("split", ["test", "train"])
def test_samples_are_texts_of_many_lengths(task, split):
    samples = task.samples(split)
    ids_NT, mask_NT = (samples.inputs[spec.name] for spec in task.inputs)
    lengths = mask_NT.sum(axis=1)

    assert ids_NT.shape == mask_NT.shape == (16, 128)
    assert ids_NT.dtype == mask_NT.dtype == np.int64
    assert lengths[0] == 128
    assert len(set(lengths.tolist())) > 8
    np.testing.assert_array_equal(mask_NT, ids_NT != 0)
    assert (np.diff(mask_NT, axis=1) <= 0).all()  # padding comes last
    assert set(ids_NT[:, 0]) == {2}
    assert set(ids_NT[np.arange(16), lengths - 1]) == {3}
    assert 29_000 < ids_NT.max() < 30_000
    np.testing.assert_array_equal(task.samples(split).inputs["input_ids"], ids_NT)


def test_splits_differ(task):
    test, train = (task.samples(split).inputs["input_ids"] for split in ("test", "train"))
    assert (test != train).any(axis=1).all()
    with pytest.raises(InputError, match="no split 'validation'; there are: train, test"):
        task.samples("validation")


def test_unknown_source_is_refused(task):
    with pytest.raises(InputError, match="'jax'; it can in: torch, tf"):
        task.build("jax", task.folder)


@pytest.mark.framework
def test_names_and_shapes_are_those_of_transformers(task, config, weights):
    transformers = pytest.importorskip("transformers")
    model = transformers.AlbertModel(transformers.AlbertConfig.from_json_file(task.config_path))
    found = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert found == weights.shapes(config)


@pytest.mark.framework
@pytest.mark.parametrize("name", ["encoder", "classifier"])
def test_parameters_are_counted_once_in_both_frameworks(small, config, weights, name):
    expected = sum(np.prod(shape) for shape in weights.shapes(config | SMALL).values())
    expected += 5 * 24 + 5 if name == "classifier" else 0
    torch_model, keras_model = small.built[name, "torch"], small.built[name, "tf"]
    assert sum(parameter.numel() for parameter in torch_model.parameters()) == expected
    assert keras_model.count_params() == expected
    assert len(keras_model.trainable_weights) == len(list(torch_model.parameters()))
    assert not torch_model.training


@pytest.mark.framework
@pytest.mark.parametrize("source", ["torch", "tf"])
def test_classifier_gives_what_transformers_gives(small, source):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file

    settings = transformers.AlbertConfig.from_json_file(small.folder / "classifier.json")
    model = transformers.AlbertForSequenceClassification(settings).eval()  # with the attention it chooses itself
    model.load_state_dict(load_file(small.folder / "classifier.safetensors"))
    ids_NT, mask_NT = texts()
    with torch.no_grad():
        expected_NL = model(input_ids=torch.from_numpy(ids_NT), attention_mask=torch.from_numpy(mask_NT)).logits.numpy()
    (actual_NL,) = run(small.built["classifier", source], source, ids_NT, mask_NT)
    np.testing.assert_allclose(actual_NL, expected_NL, rtol=0, atol=1e-5 * np.abs(expected_NL).max())


@pytest.mark.framework
@pytest.mark.parametrize("shape", [(1, 20), (3, 12), (2, 5)])
def test_encoders_agree(small, shape):
    expected = run(small.built["encoder", "torch"], "torch", *texts(*shape))
    actual = run(small.built["encoder", "tf"], "tf", *texts(*shape))
    assert [output.shape for output in expected] == [(*shape, 24), (shape[0], 24)]
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.framework
@pytest.mark.parametrize("source", ["torch", "tf"])
def test_padding_has_no_influence(small, source):
    model = small.built["encoder", source]
    ids_NT, mask_NT = texts()
    hidden_NTD, pooled_ND = run(model, source, ids_NT, mask_NT)
    for row, length in enumerate(mask_NT.sum(axis=1)):
        alone_1TD, alone_1D = run(model, source, ids_NT[row : row + 1, :length], mask_NT[row : row + 1, :length])
        np.testing.assert_allclose(hidden_NTD[row, :length], alone_1TD[0], atol=1e-5)
        np.testing.assert_allclose(pooled_ND[row], alone_1D[0], atol=1e-5)


@pytest.mark.framework
def test_keras_refuses_weights_that_the_network_lacks(small, task, config, weights, tmp_path):
    from safetensors.numpy import save_file

    save_file(weights.make(config | SMALL) | {"extra.weight": np.zeros(3, np.float32)}, tmp_path / "more.safetensors")
    with pytest.raises(AssertionError, match=r"more\.safetensors holds what the network does not have: extra\.weight"):
        task.module("tf_model", of="albert").build(tmp_path / "more.safetensors", small.folder / "encoder.json")


def test_nan_has_no_fidelity():
    task = catalog.task("albert_base")
    expected = {"last_hidden_state": np.ones((2, 3), np.float32), "pooler_output": np.ones((2, 1), np.float32)}
    targets = [{name: array[row] for name, array in expected.items()} for row in range(2)]
    broken = expected | {"last_hidden_state": np.full((2, 3), np.nan, np.float32)}
    assert task.metrics(expected, targets) == {"snr_db": 120}
    assert np.isnan(task.metrics(broken, targets)["snr_db"])


def test_weights_are_the_ones_that_results_were_measured_with(config, weights):
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.make(config).items()):
        digest.update(name.encode() + tensor.tobytes())
    assert digest.hexdigest() == SHA256
