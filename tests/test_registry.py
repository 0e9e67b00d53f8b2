"""Names come through entry points, the built-in ones like a stranger's."""

import pytest

from pytest_hwperf import registry
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.stores.json_files import JsonStore


def test_the_built_in_names_are_registered() -> None:
    assert set(registry.names("scenarios")) >= {"sklearn_fp32", "onnx_fp32", "onnx_int8"}
    assert set(registry.names("energy_meters")) >= {"rapl", "estimate"}
    assert set(registry.names("stores")) >= {"json"}


def test_a_name_is_loaded() -> None:
    assert registry.find("stores", "json") is JsonStore


@pytest.mark.parametrize(
    ("kind", "name", "reported"),
    [
        (
            "scenarios",
            "onx_fp32",
            r"unknown scenario 'onx_fp32'\. Did you mean 'onnx_fp32'\?$",
        ),
        ("energy_meters", "zzz", r"unknown energy meter 'zzz'\. Allowed: "),
        ("stores", "sqll", r"unknown store 'sqll'\. Did you mean 'sql'\? Allowed: json, sql"),
    ],
)
def test_an_unknown_name_is_refused_with_the_allowed(kind: registry.Group, name: str, reported: str) -> None:
    with pytest.raises(UsageProblem, match=reported):
        registry.find(kind, name)
