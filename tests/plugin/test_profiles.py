"""A process that profiles the functions of one measurement, and what it says where it cannot."""

import os
from pathlib import Path

import pytest

from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerResult, WorkerTask, decode_result, encode

MODEL = """
def tokenize(text):
    return [hash(word) for word in text.split()]

def predict(text):
    for _ in range(3):
        tokenize(text)

async def predict_later():
    pass

def prepare():
    return (["word " * 5000], {}) if tokenize("word " * 20000) else None
"""
TESTS = """
import unittest
import pytest
from model import predict, predict_later, prepare

def test_called(hwperf): hwperf(predict, "word " * 5000)

def test_awaited(hwperf): hwperf(predict_later)

@pytest.mark.hwload(kind="offline", calls=4)
def test_loaded(hwperf): hwperf(predict, "word")

def test_prepared(hwperf): hwperf(predict, setup=prepare)

@pytest.mark.hwbudget(latency_p50_ms=1e5)
class TestCase(unittest.TestCase):
    def setUp(self):
        (self.text,), _ = prepare()

    def test_method(self):
        predict(self.text)
"""


def profiled(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str) -> WorkerResult:
    """Return what a process replies that is to profile a test; it runs here."""
    pytester.makepyfile(model=MODEL, test_it=TESTS)
    reply = Path(pytester.path) / "reply.json"
    task = WorkerTask(role="functions", node=f"test_it.py::{test}", reply_to=str(reply))
    monkeypatch.setitem(os.environ, ENVIRONMENT, encode(task))
    monkeypatch.syspath_prepend(pytester.path)
    pytester.runpytest_inprocess("--hwperf-sample-time=0.1", "-p", "no:cacheprovider")
    return decode_result(reply.read_bytes())


@pytest.mark.live
def test_functions_are_sampled_and_counted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    found = profiled(pytester, monkeypatch, "test_called").functions
    assert found is not None
    assert "predict (model.py);tokenize (model.py)" in found.stacks
    assert (1, 3.0) == (found.functions["tokenize (model.py)"].line, found.functions["tokenize (model.py)"].calls)
    assert [] == [stack for stack in found.stacks if not stack.startswith("predict (model.py)")]


@pytest.mark.live
@pytest.mark.parametrize(
    ("test", "begin"),
    [("test_prepared", "predict (model.py)"), ("TestCase::test_method", "TestCase.test_method (test_it.py);predict ")],
)
def test_the_set_up_of_a_call_is_no_part_of_its_profile(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str, begin: str
) -> None:
    """It takes longer than the call, and calls a function that the call calls too."""
    found = profiled(pytester, monkeypatch, test).functions
    assert found is not None
    assert [] == [stack for stack in found.stacks if not begin.startswith(stack) and not stack.startswith(begin)]
    assert 3.0 == found.functions["tokenize (model.py)"].calls
    assert "prepare (model.py)" not in found.functions


def test_what_cannot_be_sampled_is_said(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"awaited": "awaited calls wait in the event loop", "loaded": "latency under a load includes waiting"}
    for test, why in reasons.items():
        found = profiled(pytester, monkeypatch, f"test_{test}")
        assert found.functions is None
        assert found.reasons["functions"].startswith(why)
