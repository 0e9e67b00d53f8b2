"""An estimator's file as something to measure: its `predict` on rows, with the pools of its libraries limited."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.measure.subjects import LoadedSubject, Subject, subject_of_callable
from pytest_hwperf.scenarios.skops_file import load_estimator
from pytest_hwperf.scenarios.threads import limit_threads


def subject_of_estimator(spec: ModelSpec, X: Any, y: Any | None) -> Subject:
    """Return an estimator as something to measure; nothing of it is loaded yet."""
    path = Path(spec.model)
    outside = _subject(_not_loaded, X, y, spec.batch_size)

    def loaded(*, single: bool) -> LoadedSubject:
        predict = load_estimator(path, spec.trust).predict
        subject = _subject(predict, X, y, spec.batch_size)
        ready = subject.load_one() if single else subject.load()
        return replace(ready, scope=partial(limit_threads, spec.threads))

    return replace(
        outside,
        load=partial(loaded, single=False),
        load_one=partial(loaded, single=True),
        model_bytes=path.stat().st_size,
        size_source="skops file",
    )


def _subject(predict: Any, X: Any, y: Any | None, batch_size: int) -> Subject:
    return subject_of_callable(predict, (X,), {}, y_true=y, batch_size=batch_size)


def _not_loaded(_: Any) -> None:
    raise AssertionError("an estimator is called after it is loaded")
