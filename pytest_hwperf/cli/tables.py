"""Rows and labels in a .csv file of anyone's: what is no plain table of numbers is refused, and no label is lost."""

import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pytest_hwperf.records.errors import UsageProblem

if TYPE_CHECKING:
    import pandas as pd

_OTHER_SEPARATORS = (";", "\t", "|")
_UNNAMED = "Unnamed: "  # what pandas calls a column whose header is empty
_HOW = "save it with commas between the cells and points in the numbers"


def read_table(file: str, content: BytesIO, target: str | None) -> tuple[Any, Any | None]:
    """Return the numbers of a table, and the labels of one of its columns."""
    frame = _parsed(file, content)
    _refuse_other_forms(file, frame)
    if target is None:
        return _numbers(file, frame), None
    if target not in frame:
        raise UsageProblem(f"--target={target!r} is no column of {file}. Allowed: {', '.join(map(str, frame))}")
    content.seek(0)
    written = _parsed(file, content, usecols=[target], dtype=str, na_filter=False)[target]
    labels = _labels(file, target, frame.pop(target), written)
    return _numbers(file, frame), labels


def _parsed(file: str, content: BytesIO, **options: Any) -> "pd.DataFrame":
    import pandas as pd

    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            return pd.read_csv(content, index_col=False, **options)
    except pd.errors.ParserWarning as warning:
        raise UsageProblem(
            f"--data={file}: the rows have more cells than the header has names: {_HOW}, and without names of rows"
        ) from warning
    except Exception as error:  # its parser, the decoder and the memory raise unrelated kinds here too
        raise UsageProblem(f"--data={file} is no table: {error}") from error


def _refuse_other_forms(file: str, frame: "pd.DataFrame") -> None:
    """Refuse what would be read as another table than the one that was written."""
    names = [str(name) for name in frame]
    if len(names) == 1 and (other := next((one for one in _OTHER_SEPARATORS if one in names[0]), "")):
        raise UsageProblem(f"--data={file}: the cells are separated by {other!r}: {_HOW}")
    if unnamed := [place for place, name in enumerate(names, 1) if name.startswith(_UNNAMED)]:
        raise UsageProblem(
            f"--data={file}: column {unnamed[0]} has no name, like the numbers of rows that tables are saved with: "
            "save it without them (pandas: index=False; R: row.names=FALSE), or give the column a name"
        )


def _labels(file: str, target: str, column: "pd.Series[Any]", written: "pd.Series[Any]") -> Any:
    """Return labels: numbers or truth values where all of them are; else the text that is written there.

    What pandas takes for a missing value, such as NA, is a label among texts, and none among numbers.
    """
    empty = written.str.strip() == ""
    absent = column.isna()
    present = column[~absent]
    is_number = column.dtype.kind in "biuf" or all(isinstance(one, bool) for one in present)
    missing = empty | absent if is_number else empty
    if missing.any():
        row = int(missing.to_numpy().argmax())
        cell = " is empty" if empty.iloc[row] else f" is {written.iloc[row]!r}, {_beside(present)}"
        raise UsageProblem(
            f"--data={file}: row {row + 1} has no label: its cell in {target!r}{cell} "
            f"({int(missing.sum())} such rows); leave out rows without a label"
        )
    return (column if is_number else written).to_numpy(dtype=None if is_number else str)


def _beside(present: "pd.Series[Any]") -> str:
    if not len(present):
        return "as in every row"
    return "where others are truth values" if isinstance(present.iloc[0], bool) else "where others are numbers"


def _numbers(file: str, frame: "pd.DataFrame") -> Any:
    """Return a table of numbers as an array that holds each of them."""
    rows = frame.to_numpy()
    if rows.dtype.kind != "f":
        return rows
    for place, name in enumerate(frame):
        column = frame[name]
        if column.dtype.kind in "iu" and (changed := rows[:, place].astype(column.dtype) != column.to_numpy()).any():
            number = column.iloc[int(changed.argmax())]
            raise UsageProblem(
                f"--data={file}: the column {name!r} holds {number}, which beside columns of fractions is rounded: "
                "save X as an .npz of the type that the model takes"
            )
    return rows
