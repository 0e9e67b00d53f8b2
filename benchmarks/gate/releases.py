"""Source distributions of releases, from an index of packages."""

import subprocess
import sys
import tarfile
from pathlib import Path


def source(package: str, release: str, folder: Path) -> Path:
    """Unpack the source distribution of a release below `folder`, and return where it is.

    Raises:
        SystemExit: pip cannot get it; says why.
    """
    there = folder / release
    asked = ("--no-deps", "--no-binary=:all:", "--dest", str(there), f"{package}=={release}")
    words = (sys.executable, "-m", "pip", "download", "-q", *asked)
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")
    (archive,) = there.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(there, filter="data")
    (unpacked,) = (path for path in there.iterdir() if path.is_dir())
    return unpacked
