"""What pip is told of the baseline's lock file and groups."""

from pathlib import Path, PurePath

from pytest_hwperf.checkout.needs import Lock, Needs, needs_of


def test_exact_versions_bind_what_is_installed(tmp_path: Path) -> None:
    needs = Needs(lock=Lock(files=("uv.lock",), versions={"b": "2", "a": "1"}), requirements=["x"])
    assert ["x", "-c", str(tmp_path / "hwperf-locked.txt")] == needs.arguments(tmp_path)
    assert "a==1\nb==2\n" == (tmp_path / "hwperf-locked.txt").read_text()
    assert ", with the versions of its uv.lock" == needs.shown


def test_without_a_lock_nothing_is_bound(tmp_path: Path) -> None:
    assert ["x"] == Needs(requirements=["x"]).arguments(tmp_path)
    assert "" == Needs().shown
    assert [True, False] == [Needs(requirements=["x"]).is_any, Needs().is_any]


def test_a_list_of_requirements_is_installed_as_far_as_this_environment_has_it(tmp_path: Path) -> None:
    """A lock file names all that might be needed; the project says what is."""
    (tmp_path / "requirements.txt").write_text("PyTest==1.0\nno-such-package==1\n")
    listed = needs_of(tmp_path, tmp_path, [PurePath()])
    (tmp_path / "pylock.toml").write_text("[[packages]]\nname = 'pytest'\nversion = '1.0'\n")
    assert ["pytest==1.0"] == list(listed.requirements)
    assert {"pytest": "1.0", "no-such-package": "1"} == listed.lock.versions
    assert [] == list(needs_of(tmp_path, tmp_path, [PurePath()]).requirements)
