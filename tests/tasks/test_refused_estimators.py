"""Files of estimators that are refused or told of: pickles without trust, damaged files, what is not installed."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import plugin
from bench.api.errors import InputError
from bench.pipeline import sweeps
from bench.plugins import catalog
from bench.tasks import adopt
from support.estimators import Examined, examiner, pickled, table

pytestmark = pytest.mark.framework("sklearn")


@pytest.fixture
def examined(plugin_folder: Path) -> Examined:
    return examiner(plugin_folder)


class Evil:
    """Pickles as a call that makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("ending", ["pkl", "pickle", "joblib"])
def test_nothing_is_unpickled_without_trust(ending: str, plugin_folder: Path, tmp_path: Path) -> None:
    path = pickled(Evil(tmp_path / "executed"), tmp_path / f"model.{ending}")
    with pytest.raises(InputError, match="holds a pickle, which may run any code; add --trust to load it"):
        adopt.adopt(path)
    assert not (tmp_path / "executed").exists()
    with pytest.raises(InputError, match="it holds a NoneType"):
        adopt.adopt(path, adopt.Options(trust=True))
    assert (tmp_path / "executed").exists(), "the pickle would have run"


def test_a_pickle_is_loaded_by_a_worker(plugin_folder: Path, tmp_path: Path) -> None:
    from sklearn.linear_model import LinearRegression

    features, classes = table()
    adopted = adopt.adopt(
        pickled(LinearRegression().fit(features, classes), tmp_path / "price.pkl"), adopt.Options(trust=True)
    )
    assert adopted == adopt.Adopted(name="price")
    task = catalog.task("price")
    assert task.packages == ("numpy", "sklearn")
    cells = {
        (cell.source, str(cell.exporter), str(cell.runtime)) for cell in sweeps.cells_of(("price",), variants=("raw",))
    }
    assert {("sklearn", "native", "sklearn"), ("sklearn", "skl2onnx", "onnxruntime")} <= cells
    (baseline,) = sweeps.baselines("price", 1, 1)
    assert (str(baseline.exporter), str(baseline.runtime)) == ("native", "sklearn")


def test_files_that_hold_no_estimator(examined: Examined, plugin_folder: Path, tmp_path: Path) -> None:
    import lightgbm
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    features, classes = table()
    whole = pickle.dumps(LogisticRegression().fit(features, classes))
    booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(features, classes), num_boost_round=1)
    texts = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["a word", "another word"], [0, 1])
    several = KNeighborsClassifier().fit(features, np.stack([classes, classes], axis=1))
    for place, (module, content, says) in enumerate(
        [
            ("sklearn", whole[: len(whole) // 2], "it cannot be unpickled: .*; was it cut off while"),
            ("sklearn", b"junk", "it cannot be unpickled: "),
            ("sklearn", pickle.dumps({"a": 1}), "it holds a dict without n_features_in_, so it is no fitted estimator"),
            ("sklearn", pickle.dumps(LogisticRegression()), "it holds a LogisticRegression without n_features_in_"),
            ("sklearn", pickle.dumps(texts), "it holds a Pipeline without n_features_in_"),
            ("sklearn", pickle.dumps(booster), r"it holds a Booster .* LightGBM's own models are read from the files"),
            ("sklearn", pickle.dumps(several), "predict_proba gives a list of 2 arrays, one for each of several"),
            (
                "sklearn",
                b"cno_such_package\nModel\n.",
                r"'no_such_package', which is not installed; .*'inferometer\[skl",
            ),
            ("xgboost", b'{"a": 1}', r"it is no model that XGBoost's save_model\(\) wrote: [^\n]{1,150}$"),
            ("xgboost", b"junk", r"it is no model that XGBoost's save_model\(\) wrote: "),
            (
                "lightgbm",
                b"junk",
                r"LightGBM's save_model\(\) wrote: .*; write it anew with save_model\(\): no other \.txt file",
            ),
        ]
    ):
        path = tmp_path / f"model{place}"
        path.write_bytes(content)
        with pytest.raises(InputError, match=says):
            examined(module, path)
        (plugin_folder / "models").rename(plugin_folder / f"done{place}")


def test_another_version_of_scikit_learn_is_told(examined: Examined, tmp_path: Path) -> None:
    import sklearn
    from sklearn.linear_model import LinearRegression

    features, classes = table()
    content = pickle.dumps(LinearRegression().fit(features, classes))
    here = sklearn.__version__.encode()
    other = b"0" * (len(here) - 2) + b".1"
    assert content.count(here) == 1
    path = tmp_path / "model.pkl"
    path.write_bytes(content.replace(here, other))
    _, found = examined("sklearn", path)
    assert found["notes"] == [
        f"scikit-learn {other.decode()} pickled it and {here.decode()} reads it: its answers may be others now"
    ]


def test_rows_that_lack_the_extra_say_how_to_get_it(
    examined: Examined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.linear_model import LinearRegression

    path = pickled(LinearRegression().fit(*table()), tmp_path / "model.pkl")
    task, _ = examined("sklearn", path)
    (cell,) = [
        cell
        for cell in sweeps.cells_of((task.name,), variants=("raw",))
        if (str(cell.exporter), str(cell.runtime), str(cell.provider)) == ("skl2onnx", "onnxruntime", "cpu")
    ]
    assert catalog.skip_reason(cell) is None
    installed = plugin._is_installed
    monkeypatch.setattr(plugin, "_is_installed", lambda name: name != "skl2onnx" and installed(name))
    assert catalog.skip_reason(cell) == "skl2onnx: skl2onnx not installed; pip install 'inferometer[sklearn]'"
    monkeypatch.setattr(plugin, "_is_installed", lambda name: name != "joblib" and installed(name))
    (tmp_path / "plugins" / "models" / "mine").rename(tmp_path / "before")
    with pytest.raises(InputError, match=r"^joblib not installed; pip install 'inferometer\[sklearn\]'$"):
        examined("sklearn", path)
