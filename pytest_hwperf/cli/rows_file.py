"""Rows and labels that a command is given, read from a file that may be damaged or come from anyone."""

from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.host.files import is_file, read_file, refused_name

_LARGEST = 2_000_000_000  # bytes, packed and unpacked
_FORMS = "give an .npz with X and perhaps y, an .npy, or a .csv"


def read_data(file: str, target: str | None) -> tuple[Any, Any | None]:
    """Read rows and labels; nothing in the file is unpickled."""
    path = Path(file)
    if path.suffix != ".csv" and target is not None:
        raise UsageProblem("--target names a column of a .csv; an .npz holds the labels as y")
    if not is_file(path):
        missing = (
            "is a folder, pipe or device" if not refused_name(path) and path.exists() else "is not there"
        )  # a pipe might never end
        raise UsageProblem(f"--data={file} {missing}: {_FORMS}")
    try:
        content = BytesIO(read_file(path, _LARGEST))
    except OSError as error:
        raise UsageProblem(f"--data={file}: {_FORMS} ({error.strerror})") from error
    if path.suffix == ".csv":
        X, y = _read_csv(file, content, target)
    else:
        try:
            X, y = _read_arrays(content, is_one=path.suffix == ".npy")
        except Exception as error:  # damaged files make numpy, zipfile and zlib raise a dozen unrelated kinds
            raise UsageProblem(f"--data={file}: {_FORMS} ({str(error) or type(error).__name__})") from error
    _check(file, X, y)
    return X, y


def _read_arrays(content: BytesIO, *, is_one: bool) -> tuple[Any, Any | None]:
    import numpy as np

    if is_zipfile(content):
        with ZipFile(content) as packed:
            if sum(one.file_size for one in packed.infolist()) > _LARGEST:  # no more is unpacked than is said here
                raise ValueError(f"larger than {_LARGEST / 1e6:g} MB")
    content.seek(0)
    found = np.load(content, allow_pickle=False)
    if is_one:
        return found, None
    with found as arrays:
        return arrays["X"], arrays.get("y")


def _read_csv(file: str, content: BytesIO, target: str | None) -> tuple[Any, Any | None]:
    import pandas as pd

    try:
        frame = pd.read_csv(content)
    except Exception as error:  # its parser, the decoder and the memory raise unrelated kinds here too
        raise UsageProblem(f"--data={file} is no table: {error}") from error
    if target is None:
        return frame.to_numpy(), None
    if target not in frame:
        raise UsageProblem(f"--target={target!r} is no column of {file}. Allowed: {', '.join(map(str, frame))}")
    y = frame.pop(target).to_numpy()
    return frame.to_numpy(), y.astype(str) if y.dtype == object else y


def _check(file: str, X: Any, y: Any | None) -> None:
    """Refuse rows and labels with which nothing could be measured."""
    import numpy as np

    for name, array in (("X", X), ("y", y)):
        if array is not None and not isinstance(array, np.ndarray):
            raise UsageProblem(f"--data={file}: {name} is no array; save it with numpy.savez")
    if not X.ndim or not len(X):
        raise UsageProblem(f"--data={file}: X has the shape {X.shape}; give at least one row")
    if X.dtype == object:
        raise UsageProblem(f"--data={file}: a column holds text or mixed values; rows are numbers in every column")
    if X.dtype.fields is not None:
        raise UsageProblem(f"--data={file}: X has named fields; give one array of numbers, shape (rows, columns)")
    if y is not None and y.shape[:1] != X.shape[:1]:
        raise UsageProblem(f"--data={file}: {len(X)} rows in X but labels of shape {y.shape}: give one a row")
