"""What belongs to the code under test, and which of its fixtures train."""

import json
from pathlib import Path

from pytest_hwperf.host.source_files import own_code
from pytest_hwperf.plugin.session.training import trains


class Model:
    def fit(self) -> "Model":
        return self


def fitted() -> Model:
    return Model().fit()


def built() -> Model:
    return fitted()


def read() -> object:
    return json.loads("{}")


def again() -> object:
    return again()


def test_a_fixture_trains_if_it_or_a_function_below_it_fits() -> None:
    assert [True, True, False, False, False] == [trains(one) for one in (fitted, built, read, again, len)]


FILES = {
    "{root}/package/model.py": True,
    "{root}/tests/conftest.py": True,
    "/elsewhere/editable/library.py": True,
    "{root}/.venv/lib/python3/site-packages/numpy/__init__.py": False,
    "/env/lib/python3/site-packages/package/model.py": True,
    "/env/lib/python3/site-packages/built.cpython-311.so": True,
    json.__file__: False,
}


def test_code_is_own_unless_it_is_installed_from_elsewhere(tmp_path: Path) -> None:
    """A package that the tree offers is own where it is installed too: from the top of the repository, with `src`."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "tests").mkdir()
    for module in ("package/__init__.py", "src/built.py"):
        (tmp_path / module).parent.mkdir()
        (tmp_path / module).touch()
    is_own = own_code(tmp_path / "tests")
    assert FILES == {file: is_own(file.format(root=tmp_path)) for file in FILES}
