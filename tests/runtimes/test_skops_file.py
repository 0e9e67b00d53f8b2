"""Estimators in files of skops, which may come from anyone: what is not trusted is neither imported nor made."""

import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_hwperf.gate.models.compare import contender
from pytest_hwperf.gate.models.targets import subject_of_estimator
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.runtimes.sklearn_native import load_estimator

pytestmark = pytest.mark.runtime
X = np.arange(12.0).reshape(6, 2)
EVIL = """
import pathlib
pathlib.Path("imported").touch()


class Evil:
    def __init__(self):
        self.a = 1

    def __setstate__(self, state):
        pathlib.Path("made").touch()
        self.__dict__.update(state)

    def __getstate__(self):
        return {"a": 1}

    def predict(self, X):
        return X[:, 0]
"""


@pytest.fixture(autouse=True)
def _skops() -> None:
    pytest.importorskip("skops", reason="needs the extra skops")


def saved(path: Path, estimator: object) -> Path:
    from skops import io

    io.dump(estimator, path)
    return path


def fitted(path: Path) -> Path:
    from sklearn.linear_model import LogisticRegression

    return saved(path, LogisticRegression().fit(X, [0, 0, 0, 1, 1, 1]))


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a type that leaves files behind where it is imported or made."""
    (tmp_path / "evil_types.py").write_text(EVIL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import evil_types  # type: ignore[import-not-found] # written above

    path = saved(tmp_path / "evil.skops", evil_types.Evil())
    for file in ("imported", "made"):
        (tmp_path / file).unlink(missing_ok=True)
    monkeypatch.delitem(sys.modules, "evil_types")
    return path


def test_an_estimator_of_scikit_learn_is_loaded_and_predicts(tmp_path: Path) -> None:
    path = fitted(tmp_path / "m.skops")
    spec = ModelSpec(model=str(path), data="", batch_size=4, threads=1, test="t", label="")
    subject = subject_of_estimator(spec, X, np.array([0, 0, 0, 1, 1, 1]))
    loaded = subject.load()
    assert path.stat().st_size == subject.model_bytes
    with loaded.scope():
        assert loaded.predictions is not None
        found = loaded.predictions()
        assert found is not None
        assert [0, 0, 0, 1, 1, 1] == found.labels.tolist()
        assert [0, 0, 0, 1] == list(subject.load_one().function(X[:4]))
    assert ("estimator", 64) == (contender(str(path)).kind, len(contender(str(path)).sha256))


def test_a_type_that_is_not_trusted_is_named_and_never_runs(evil: Path) -> None:
    with pytest.raises(UsageProblem, match=r"not trusted: evil_types\.Evil\..*give --trust=evil_types\.Evil"):
        load_estimator(evil)
    with pytest.raises(UsageProblem, match=r"not trusted: evil_types\.Evil"):
        load_estimator(evil, ["evil_types.Other", "evil_types"])
    assert [] == [name for name in ("imported", "made") if (evil.parent / name).exists()]
    assert "evil_types" not in sys.modules


def test_a_type_that_is_named_is_loaded(evil: Path) -> None:
    assert [0.0, 2.0] == load_estimator(evil, ["evil_types.Evil"]).predict(X)[:2].tolist()


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + b"\0" * 18])
def test_a_damaged_file_says_how_one_is_written(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.skops").write_bytes(content)
    with pytest.raises(UsageProblem, match=r"m\.skops is no file of skops .*: write one with skops\.io\.dump"):
        load_estimator(tmp_path / "m.skops")


def test_what_cannot_predict_is_refused(tmp_path: Path) -> None:
    from sklearn.preprocessing import StandardScaler

    with pytest.raises(UsageProblem, match="holds a StandardScaler, which has no method predict"):
        load_estimator(saved(tmp_path / "m.skops", StandardScaler().fit(X)))


def test_without_skops_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(UsageProblem, match=r"pip install 'pytest-hwperf\[skops\]'"):
        load_estimator(tmp_path / "m.skops")
