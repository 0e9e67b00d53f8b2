"""Names come through entry points, the built-in ones like a stranger's."""

import json
from pathlib import Path

import pytest

from pytest_hwperf import registry
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.stores.json_files import JsonStore


def test_the_built_in_names_are_registered_and_loaded() -> None:
    assert set(registry.names("scenarios")) >= {"sklearn_fp32", "onnx_fp32", "onnx_int8"}
    assert set(registry.names("energy_meters")) >= {"rapl", "estimate"}
    assert registry.find("stores", "json") is JsonStore


def test_what_a_path_of_imports_brings_is_found_as_long_as_it_is_there(tmp_path: Path) -> None:
    place = tmp_path / "own_scenario-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: own_scenario\nVersion: 1.0\n", encoding="utf-8")
    (place / "entry_points.txt").write_text("[pytest_hwperf.scenarios]\nmine = json:loads\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert json.loads is registry.find("scenarios", "mine")
    assert "mine" not in registry.names("scenarios")


def test_an_unknown_name_is_refused_with_the_allowed() -> None:
    refused: tuple[tuple[registry.Group, str, str], ...] = (
        ("scenarios", "onx_fp32", r"unknown scenario 'onx_fp32'\. Did you mean 'onnx_fp32'\?$"),
        ("energy_meters", "zzz", r"unknown energy meter 'zzz'\. Allowed: "),
        ("stores", "sqll", r"unknown store 'sqll'\. Did you mean 'sql'\? Allowed: json, sql"),
    )
    for kind, name, reported in refused:
        with pytest.raises(UsageProblem, match=reported):
            registry.find(kind, name)
