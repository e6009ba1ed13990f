"""Users' estimators of scikit-learn, XGBoost and LightGBM: their answers, and those of their ONNX files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Task, TensorSpec
from bench.api.arrays import save_arrays
from bench.plugins import catalog, steps
from bench.plugins.engines import estimators
from support.estimators import WIDTH, Examined, examiner, others_than_trained, pickled, table

pytestmark = pytest.mark.framework("sklearn")
COMMAND = Path(sys.executable).with_name("bench")
EXPORTERS = {"sklearn": "skl2onnx", "xgboost": "xgboost_onnx", "lightgbm": "lightgbm_onnx"}


@pytest.fixture
def examined(plugin_folder: Path) -> Examined:
    return examiner(plugin_folder)


def answers(task: Task, features: np.ndarray, folder: Path) -> list[np.ndarray]:
    """The output of the task's own framework, and that of its export on ONNX Runtime."""
    (source,) = task.sources
    made = []
    for exporter, runtime in (("native", source), (EXPORTERS[source], "onnxruntime")):
        artifact = folder / f"{exporter}.{catalog.exporter(exporter).format(source)}"
        steps.export(catalog.exporter(exporter), task, source, artifact)
        opener = catalog.runtime(runtime)
        with opener.open(artifact, task=task, source=source, provider="cpu", threads=1) as session:
            made += session.run({"features": features})
    return made


def classifiers() -> dict[str, Callable[[], Any]]:
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from xgboost import XGBClassifier

    def forest() -> Any:
        return RandomForestClassifier(7, max_depth=4, random_state=0)

    return {
        "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        "forest": forest,
        "histogram": lambda: HistGradientBoostingClassifier(max_iter=5),
        "search": lambda: GridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2),
        "voting": lambda: VotingClassifier(
            [("a", forest()), ("b", LogisticRegression())], voting="soft", flatten_transform=False
        ),
        "xgboost": lambda: XGBClassifier(n_estimators=5),
        "xgboost in a pipeline": lambda: make_pipeline(StandardScaler(), XGBClassifier(n_estimators=5)),
        "lightgbm": lambda: LGBMClassifier(n_estimators=5, verbose=-1),
    }


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize(
    "name",
    ["pipeline", "forest", "histogram", "search", "voting", "xgboost", "xgboost in a pipeline", "lightgbm"],
)
def test_pickled_classifiers_give_probabilities(
    name: str, num_classes: int, examined: Examined, tmp_path: Path
) -> None:
    features, classes = table(num_classes)
    estimator = classifiers()[name]().fit(features, classes)
    task, found = examined("sklearn", pickled(estimator, tmp_path / "model.pkl"))
    assert task.inputs == (TensorSpec(name="features", dtype="float32", shape=("batch", WIDTH)),)
    assert task.outputs == (TensorSpec(name="probabilities", dtype="float32", shape=("batch", num_classes)),)
    assert (task.batched, found["guessed"], found["notes"]) == (True, {}, [])
    features = others_than_trained()
    expected = estimator.predict_proba(features)
    assert np.ptp(expected[:, 0]) > 0.1
    for made in answers(task, features, tmp_path):
        np.testing.assert_allclose(made, expected, atol=1e-5)


def others() -> dict[str, tuple[str, Callable[[], Any]]]:
    """The output's name and dtype, and an estimator, by a name."""
    from lightgbm import LGBMRegressor
    from sklearn.cluster import KMeans
    from sklearn.ensemble import GradientBoostingRegressor, IsolationForest, RandomForestRegressor
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC
    from xgboost import XGBRegressor

    return {
        "linear classifier": ("label", LinearSVC),
        "support vectors": ("label", SVC),
        "outliers": ("label", lambda: IsolationForest(n_estimators=5, random_state=0)),
        "clusters": ("label", lambda: KMeans(3, n_init=1, random_state=0)),
        "scaler": ("transformed", StandardScaler),
        "forest": ("prediction", lambda: RandomForestRegressor(5, max_depth=4, random_state=0)),
        "forest of two targets": ("prediction", lambda: RandomForestRegressor(5, max_depth=4, random_state=0)),
        "boosting": ("prediction", lambda: GradientBoostingRegressor(n_estimators=5)),
        "xgboost": ("prediction", lambda: XGBRegressor(n_estimators=5)),
        "lightgbm": ("prediction", lambda: LGBMRegressor(n_estimators=5, verbose=-1)),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("linear classifier", "support vectors", "outliers", "clusters", "scaler"),
        *("forest", "forest of two targets", "boosting", "xgboost", "lightgbm"),
    ],
)
def test_other_pickled_estimators(name: str, examined: Examined, tmp_path: Path) -> None:
    features, classes = table()
    output, make = others()[name]
    targets = features[:, 0] * 3 + classes if output == "prediction" else classes
    if "two targets" in name:
        targets = np.stack([targets, -targets], axis=1)
    estimator = make().fit(features, targets)
    task, _ = examined("sklearn", pickled(estimator, tmp_path / "model.pickle"))
    features = others_than_trained()
    expected = getattr(estimator, estimators.METHODS[output])(features)
    (spec,) = task.outputs
    assert (spec.name, spec.dtype) == (output, estimators.DTYPES[output])
    assert spec.shape == ("batch", *expected.shape[1:])
    for made in answers(task, features, tmp_path):
        np.testing.assert_allclose(made, expected, atol=1e-4)


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob", "multi:softmax", "reg:squarederror"])
def test_files_of_xgboost(objective: str, ending: str, examined: Examined, tmp_path: Path) -> None:
    """They hold no code, and are opened without trust."""
    import xgboost

    features, classes = table(3 if objective.startswith("multi") else 2)
    names = [f"name {place}" for place in range(WIDTH)]
    data = xgboost.DMatrix(features, classes, feature_names=names)
    parameters = {"objective": objective, **({"num_class": 3} if objective.startswith("multi") else {})}
    booster = xgboost.train(parameters, data, num_boost_round=5)
    path = tmp_path / f"model.{ending}"
    booster.save_model(path)
    task, _ = examined("xgboost", path, trust=False)
    features = others_than_trained()
    expected = booster.predict(xgboost.DMatrix(features, feature_names=names))
    if objective == "binary:logistic":
        expected = np.stack([1 - expected, expected], axis=1)
    for made in answers(task, features, tmp_path):
        assert made.shape == expected.shape
        np.testing.assert_allclose(made, expected, atol=1e-5)


def test_file_of_an_xgboost_estimator(examined: Examined, tmp_path: Path) -> None:
    from xgboost import XGBClassifier

    features, classes = table()
    estimator = XGBClassifier(n_estimators=5).fit(features, classes)
    estimator.save_model(tmp_path / "model.json")
    task, _ = examined("xgboost", tmp_path / "model.json", trust=False)
    features = others_than_trained()
    for made in answers(task, features, tmp_path):
        np.testing.assert_allclose(made, estimator.predict_proba(features), atol=1e-5)


def test_training_of_xgboost_that_stopped_early_is_cut_to_its_best_round(examined: Examined, tmp_path: Path) -> None:
    from xgboost import XGBClassifier

    features, classes = table(2)
    estimator = XGBClassifier(n_estimators=40, learning_rate=1, early_stopping_rounds=5)
    estimator.fit(features, classes, eval_set=[(others_than_trained(), np.arange(50) % 2)], verbose=False)
    assert estimator.best_iteration + 1 < estimator.get_booster().num_boosted_rounds()
    estimator.save_model(tmp_path / "model.json")
    task, _ = examined("xgboost", tmp_path / "model.json", trust=False)
    for made in answers(task, others_than_trained(), tmp_path):
        np.testing.assert_allclose(made, estimator.predict_proba(others_than_trained()), atol=1e-5)


def test_labels_tell_no_precision(examined: Examined, tmp_path: Path) -> None:
    from sklearn.linear_model import RidgeClassifier

    task, _ = examined("sklearn", pickled(RidgeClassifier().fit(*table()), tmp_path / "model.pkl"))
    runtime = catalog.runtime("sklearn")
    with runtime.open(task.weights_path, task=task, source="sklearn", provider="cpu", threads=1) as session:
        session.run({"features": others_than_trained()})
        assert session.precision is None


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_files_of_lightgbm(objective: str, examined: Examined, tmp_path: Path) -> None:
    import lightgbm

    features, classes = table(3 if objective == "multiclass" else 2)
    parameters = {"objective": objective, "verbose": -1, **({"num_class": 3} if objective == "multiclass" else {})}
    booster = lightgbm.train(parameters, lightgbm.Dataset(features, classes), num_boost_round=5)
    booster.save_model(tmp_path / "model.txt")
    task, _ = examined("lightgbm", tmp_path / "model.txt", trust=False)
    features = others_than_trained()
    expected = booster.predict(features)
    if objective == "binary":
        expected = np.stack([1 - expected, expected], axis=1)
    for made in answers(task, features, tmp_path):
        assert made.shape == expected.shape
        np.testing.assert_allclose(made, expected, atol=1e-5)


@pytest.mark.parametrize("labels", [(1, 2, 3), (0, 1, 2), (-5, 0, 7)])
def test_classes_of_a_data_set_are_the_estimators(labels: tuple[int, ...], examined: Examined, tmp_path: Path) -> None:
    """Whatever numbers the classes have, the accuracy is that of the estimator's own answers."""
    from sklearn.linear_model import LogisticRegression

    features, places = table()
    classes = np.array(labels)[places]
    estimator = LogisticRegression(C=0.01).fit(features, classes)
    save_arrays(tmp_path / "data.npz", {"features": features, "targets": classes})
    task, _ = examined("sklearn", pickled(estimator, tmp_path / "model.pkl"), data=str(tmp_path / "data.npz"))
    samples = task.samples("test")
    assert samples.targets is not None
    outputs = {"probabilities": estimator.predict_proba(samples.inputs["features"])}
    test = np.arange(len(features)) % 5 != 0
    assert task.metrics(outputs, samples.targets) == {
        "accuracy": pytest.approx(estimator.score(features[test], classes[test]))
    }


def test_every_estimator_in_a_pickle_takes_the_threads(
    examined: Examined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from joblib.parallel import get_active_backend
    from sklearn.ensemble import RandomForestClassifier, VotingClassifier
    from xgboost import XGBClassifier

    features, classes = table()
    voters = [("forest", RandomForestClassifier(3)), ("xgboost", XGBClassifier(n_estimators=2))]
    voting = VotingClassifier(voters, voting="soft").fit(features, classes)
    task, _ = examined("sklearn", pickled(voting, tmp_path / "model.joblib"))
    opened: list[Any] = []
    load = estimators.load
    monkeypatch.setattr(estimators, "load", lambda path: opened.append(load(path)) or opened[-1])
    runtime = catalog.runtime("sklearn")
    with runtime.open(task.weights_path, task=task, source="sklearn", provider="cpu", threads=2) as session:
        (made,) = session.run({"features": features[:4]})
        assert session.precision == "float64"
        assert type(get_active_backend()[0]).__name__ == "ThreadingBackend", "no processes are started"
    assert type(get_active_backend()[0]).__name__ == "LokyBackend"
    np.testing.assert_allclose(made, voting.predict_proba(features[:4]), atol=1e-6)
    forest, booster = opened[0].estimators_
    assert forest.n_jobs == 2
    assert json.loads(booster.get_booster().save_config())["learner"]["generic_param"]["nthread"] == "2"


@pytest.mark.thorough
@pytest.mark.slow(seconds=20)
def test_an_estimator_is_measured_beside_its_onnx_file(tmp_path: Path) -> None:
    """The whole way by the command: the same answers, and the times of both."""
    features, classes = table()
    path = pickled(classifiers()["forest"]().fit(features, classes), tmp_path / "trees.pkl")
    environment = {**os.environ, "BENCH_CACHE": str(tmp_path / "cache"), "BENCH_PATH": "", "COLUMNS": "200"}
    globs = ("sklearn/native/raw/sklearn/cpu/b1t1", "sklearn/skl2onnx/raw/onnxruntime/cpu/b1t1")
    run = ["run", "--model", path.name, "--trust", *globs, "--budget", "20s", "--launches", "1"]
    outputs = []
    for arguments in (run, ["show", "--format", "json"]):
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    rows = {row["runtime"]: row for row in json.loads(outputs[1])}
    assert rows.keys() == {"sklearn", "onnxruntime"}
    for row in rows.values():
        assert (row["status"], row["reason"]) == ("ok", None)
        assert row["fidelity"] in ("exact", "close")
        assert row["latency_p50_ns"] > 0
    assert rows["sklearn"]["ratio"] == 1.0
    assert rows["onnxruntime"]["ratio"] < 0.5, "a forest takes scikit-learn many calls in Python"
