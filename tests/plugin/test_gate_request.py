"""What the options of the command line ask of a gate."""

import pytest
from fakes.reruns import INI, repository

from pytest_hwperf.gate.preparing import GateRequest
from pytest_hwperf.records.errors import UsageProblem

TEST = "def test_call(hwperf):\n    hwperf(sum, [1, 2])\n"


# A doctest, and a test that lies in no file, are measured where they have a budget.
CONFTEST = """
import pytest
from pathlib import Path

class Free(pytest.Item):
    def runtest(self): pass

def pytest_collection_modifyitems(session, items):
    items.append(Free.from_parent(session, name="free", path=Path("/nowhere/at/all")))
    for item in items:
        item.add_marker(pytest.mark.hwbudget(latency_p50_ms=1))
"""


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[GateRequest]:
    """Take the place of the gate, and return what it is asked for."""
    asked = list[GateRequest]()

    def gate(request: GateRequest) -> None:
        asked.append(request)
        raise UsageProblem("stopped here")

    monkeypatch.setattr("pytest_hwperf.plugin.judging.gate.run_gate", gate)
    return asked


def test_options_reach_the_gate(pytester: pytest.Pytester, requests: list[GateRequest]) -> None:
    project = repository(pytester, {"pytest.ini": INI, "test_a.py": TEST})
    project.run()
    project.run("--hwperf-prove-equal", "-ohwperf_silence=7", "--hwperf-time-limit=33", "--hwperf-share=models/*.bin")
    asked = [(one.prove_equal, one.silence_s, one.time_s, one.share) for one in requests]
    assert [(False, 60.0, 600.0, ()), (True, 7.0, 33.0, ("models/*.bin",))] == asked


def test_files_outside_of_the_rootdir_are_refused(pytester: pytest.Pytester, requests: list[GateRequest]) -> None:
    """Their node ids depend on the arguments of pytest, and fresh processes have others."""
    project = repository(pytester, {"cfg/pytest.ini": INI, "tests/test_a.py": TEST})
    refused = project.run("-c", "cfg/pytest.ini", "tests")
    (said,) = (line for line in refused.errlines if line.startswith("ERROR: hwperf: "))
    project.run("-c", "cfg/pytest.ini", "--rootdir=.", "tests")

    file, root = project.path / "tests" / "test_a.py", project.path / "cfg"
    assert pytest.ExitCode.USAGE_ERROR == refused.ret
    assert said.startswith(f"ERROR: hwperf: {file} is not below pytest's rootdir {root}, so ")
    assert said.endswith("give --rootdir=DIR with a folder above the tests")
    assert [[file]] == [one.files for one in requests]


def test_links_doctests_and_tests_in_no_file_are_taken(
    pytester: pytest.Pytester, requests: list[GateRequest], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A link below the rootdir may lead out of it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "test_linked.py").write_text(TEST, encoding="utf-8")
    docs = 'def one():\n    """\n    >>> 1\n    1\n    """\n'
    project = repository(pytester, {"pytest.ini": INI, "conftest.py": CONFTEST, "doc.py": docs})
    (project.path / "linked").symlink_to(elsewhere, target_is_directory=True)
    project.run("--doctest-modules", "linked", "doc.py")
    (request,) = requests
    assert ["linked/test_linked.py::test_call", "doc.py::doc.one", "::free"] == [one.node for one in request.tests]
    assert [project.path / "linked" / "test_linked.py", project.path / "doc.py"] == request.files
