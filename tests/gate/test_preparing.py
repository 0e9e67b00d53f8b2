"""What is done for a baseline before its rehearsal, and in which order."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.checkout.building import BuildPlace, Built
from pytest_hwperf.checkout.layer import Interpreter
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate import preparing
from pytest_hwperf.gate.environments import BaseEnvironment
from pytest_hwperf.gate.preparing import GateRequest, GateRun, prepare
from pytest_hwperf.gate.sharing import Sharer
from pytest_hwperf.host.files import CACHE_VARIABLE
from pytest_hwperf.host.launch import PytestCommand
from pytest_hwperf.host.workdirs import goes_with_a_run, workdir
from pytest_hwperf.records.errors import UsageProblem

Asked = Callable[..., GateRun]


class Steps:
    """Stands for what takes time, and notes what was asked for."""

    def __init__(self) -> None:
        """Nothing was done."""
        self.done = list[str]()
        self.places = list[BuildPlace]()
        self.made: BaseEnvironment | None = None

    def built(self, builds: Sequence[str], place: BuildPlace, until: float) -> Built:
        """Take the place of `run_builds`."""
        assert until > 0
        self.done.append(f"build {' '.join(builds)}")
        self.places.append(place)
        return Built(seconds=2.0)

    def environment(self, *_: object) -> BaseEnvironment | None:
        """Take the place of what makes an environment, where one is needed."""
        self.done.append("environment")
        return self.made


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    monkeypatch.setattr(preparing, "run_builds", found.built)
    monkeypatch.setattr(preparing, "environment_built", found.environment)
    monkeypatch.setattr(preparing, "environment_with", found.environment)
    monkeypatch.setattr(preparing, "with_plugins", lambda given, _: given)
    monkeypatch.setattr(preparing, "loaded_files", list)
    return found


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    project, baseline = tmp_path / "project", tmp_path / "base" / "project"
    (project / "sub").mkdir(parents=True)
    git(project, "init")
    (project / "sub" / "work.py").touch()
    commit(project, __gitignore="_*.py\n")
    git(project, "worktree", "add", "--detach", str(baseline))
    return Trees(candidate=project, baseline=baseline, revision="", shared={}, changed=frozenset(), warnings=())


@pytest.fixture
def asked(trees: Trees) -> Asked:
    """A gate of tests in a sub-project, whose trees are there."""
    caches = trees.candidate.parent / "caches"
    caches.mkdir()

    def make(**others: Any) -> GateRun:
        root = trees.candidate / "sub"
        variables = {"PATH": "/usr/bin", "HERE": f"{root}/work.py"}
        command = PytestCommand(
            inherited=(), neutral=(), of_plugins={}, root=root, inipath=None, directory=root, environment=variables
        )
        request = GateRequest(
            tests=[], files=[], command=command, against="HEAD", name="HEAD", alpha=0.01, time_s=9,
            logs=trees.candidate / "logs", **others,
        )  # fmt: skip
        gate = GateRun(asked=request, stack=ExitStack(), until=monotonic() + 9)
        gate.caches = caches
        gate.sharer = Sharer(trees=trees, folders=(), is_on="none" not in request.share)
        return gate

    return make


def seconds_of(gate: GateRun) -> dict[str, float]:
    return {stage: seconds for stage, seconds in gate.conductor.seconds.items() if stage != "checkout"}


def test_a_baseline_is_built_in_its_own_tree_before_an_environment_is_made(
    steps: Steps, trees: Trees, asked: Asked
) -> None:
    """Where building is all that it needs, it needs none."""
    gate = asked(build=("make",), built=Built(seconds=3.0, stale=("/a/fast.so",)))
    prepare(gate)
    assert ["build make", "environment"] == steps.done
    (place,) = steps.places
    assert trees.baseline / "sub" == place.directory
    assert f"{trees.baseline}/sub/work.py" == place.environment["HERE"]
    assert ({"build": 5.0}, None) == (seconds_of(gate), gate.base_python)
    assert gate.notes[0].startswith("--hwperf-build has made /a/fast.so anew, which this process had loaded before")


def test_nothing_is_built_unless_that_is_asked_for(steps: Steps, asked: Asked) -> None:
    prepare(gate := asked())
    assert (["environment"], {}, ()) == (steps.done, seconds_of(gate), gate.notes)


def test_an_environment_that_is_made_is_that_of_the_baseline(steps: Steps, asked: Asked) -> None:
    steps.made = BaseEnvironment(python=Path("/made/bin/python"), notes=("made",), seconds=4.0)
    prepare(gate := asked())
    assert gate.base_python == Interpreter(path="/made/bin/python")
    assert "/made/bin/python" == gate.conductor.commands["baseline"].interpreter
    assert ({"environment": 4.0}, ("made",), True) == (seconds_of(gate), gate.notes, gate.sharer.own_interpreter)


def test_a_tree_is_built_for_the_interpreter_that_runs_it(steps: Steps, asked: Asked) -> None:
    """With other versions of packages, that one is made before."""
    prepare(asked(build=("make",), base_python=Interpreter(path="/own/bin/python")))
    steps.made = BaseEnvironment(python=Path("/made/bin/python"), notes=(), seconds=4.0)
    prepare(asked(build=("make",), base_with=("ort==1",)))
    assert ["/own/bin/python", "/made/bin/python"] == [place.interpreter for place in steps.places]
    assert ["build make", "environment", "build make"] == steps.done


@pytest.mark.usefixtures("steps")
def test_generated_modules_are_given_where_that_spares_an_environment(
    trees: Trees, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where one is asked for: building makes them of the baseline's own sources."""
    version = trees.candidate / "sub" / "_version.py"
    version.write_text("A = 1\n")
    monkeypatch.setattr(preparing, "loaded_files", lambda: [str(version)])
    prepare(gate := asked())
    assert ["sub/_version.py"] == list(gate.trees.shared)
    (trees.baseline / "sub" / "_version.py").unlink()
    for given in ({"share": ("none",)}, {"base_env": "build"}):
        with pytest.raises(UsageProblem, match="ignored by git"):
            prepare(asked(**given))


def test_forgotten_caches_leave_the_folder_of_the_run(asked: Asked) -> None:
    """Its lock says that the run is alive; what has it is removed with the run, even if that is killed."""
    gate = asked()
    with workdir() as gate.caches:
        kept = [Path(command.environment[CACHE_VARIABLE], "model") for command in gate.commands().values()]
        for path in kept:
            path.mkdir(parents=True)
        gate.forget_caches()
        assert [False, False] == [path.exists() for path in kept]
        assert goes_with_a_run(gate.caches)
