"""What the sdist and the wheel have to hold: `python tests/package_checks.py DIST`, as tox runs it after building both.

It installs the sdist into a fresh environment, and ends with a sentence for each thing that is not so.
"""

import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

OWN = "pytest_hwperf/"
TESTED = "import pytest_hwperf, sys; sys.exit(sys.prefix not in pytest_hwperf.__file__)"


def foreign(names: Iterable[str]) -> Iterator[str]:
    """Name the files of a wheel that are neither the package's own nor its metadata."""
    for name in names:
        folder = name.partition("/")[0]
        if not name.startswith(OWN) and not (folder.startswith("pytest_hwperf-") and folder.endswith(".dist-info")):
            yield f"the wheel holds {name}: only {OWN} belongs there"


def lacking(names: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    """Name what the sdist was to include and does not."""
    found = {name.partition("/")[2] for name in names}
    for one in wanted:
        if one not in found and not any(name.startswith(f"{one}/") for name in found):
            yield f"the sdist lacks {one}, which pyproject.toml includes"


def install(sdist: Path, folder: Path) -> None:
    """Build and install what the sdist holds, and import it from there."""
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, sdist], check=True)
    subprocess.run([python, "-I", "-c", TESTED], check=True)


def main(dist: Path) -> list[str]:
    """Return what is wrong with the files of a folder that holds one sdist and one wheel."""
    [sdist], [wheel] = dist.glob("*.tar.gz"), dist.glob("*.whl")
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    with ZipFile(wheel) as archive, tarfile.open(sdist) as source:
        included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
        found = [*foreign(archive.namelist()), *lacking(source.getnames(), included)]
    with TemporaryDirectory() as folder:
        install(sdist, Path(folder) / "fresh")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(main(Path(sys.argv[1]))) or 0)
