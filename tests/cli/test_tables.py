"""Rows and labels of .csv files that others wrote: no label is lost, and no other table is read than was written."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pytest_hwperf.cli.inputs import read_data
from pytest_hwperf.records.errors import UsageProblem

FRAME = pd.DataFrame({"a": [1.5, 2.5, 3.5, 4.5], "b": [0.1, 0.2, 0.3, 0.4]})


def read(path: Path, content: str) -> list[object]:
    path.write_text(content, encoding="utf-8")
    X, y = read_data(str(path), "region")
    assert y is not None
    assert len(X) == len(y)
    found: list[object] = y.tolist()
    return found


@pytest.mark.parametrize("word", ["NA", "None", "null", "nan", "N/A", "#N/A", "NULL", "-nan", "<NA>"])
def test_a_word_for_missing_is_a_label_among_texts(tmp_path: Path, word: str) -> None:
    """North America is one of two regions."""
    content = f"a,region,b\n1,{word},2\n3,EU,4\n5,{word},6\n"
    assert [word, "EU", word] == read(tmp_path / "rows.csv", content)
    assert [[1, 2], [3, 4], [5, 6]] == read_data(str(tmp_path / "rows.csv"), "region")[0].tolist()


@pytest.mark.parametrize(
    ("labels", "kind"),
    [("1,0", "i"), ("1.5,2", "f"), ("True,False", "b"), ("007,8", "i"), ("x,1", "U"), ("18446744073709551615,1", "u")],
)
def test_labels_keep_their_kind(tmp_path: Path, labels: str, kind: str) -> None:
    first, second = labels.split(",")
    path = tmp_path / "rows.csv"
    path.write_text(f"a,region\n1,{first}\n2,{second}\n", encoding="utf-8")
    y = read_data(str(path), "region")[1]
    assert y is not None
    assert kind == y.dtype.kind


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (
            ["EU", "", "NA"],
            r"row 2 has no label: its cell in 'region' is empty \(1 such rows\); leave out rows without",
        ),
        (["EU", "NA", '"  "'], "row 3 has no label: its cell in 'region' is empty"),
        (["1", "0", ""], "row 3 has no label: its cell in 'region' is empty"),
        (
            ["NA", "0", "NA"],
            r"row 1 has no label: its cell in 'region' is 'NA', where others are numbers \(2 such rows\)",
        ),
        (["True", "NA", "False"], "row 2 has no label: its cell in 'region' is 'NA', where others are truth values"),
        (["NA", "NA", "NA"], r"row 1 has no label: its cell in 'region' is 'NA', as in every row \(3 such rows\)"),
    ],
)
def test_a_row_without_a_label_is_refused(tmp_path: Path, cells: list[str], sentence: str) -> None:
    content = "a,region\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells))
    with pytest.raises(UsageProblem, match=sentence):
        read(tmp_path / "rows.csv", content)


def test_missing_numbers_among_the_rows_stay_missing(tmp_path: Path) -> None:
    """As R's write.csv writes them, with texts in quotes."""
    path = tmp_path / "rows.csv"
    path.write_text('"a","b","region"\n1.5,NA,"NA"\nNA,2,"EU"\n', encoding="utf-8")
    X, y = read_data(str(path), "region")
    assert y is not None
    assert ["NA", "EU"] == y.tolist()
    assert np.array_equal([[1.5, np.nan], [np.nan, 2]], X, equal_nan=True)


def test_a_mark_of_the_byte_order_and_empty_ends_of_lines_are_no_data(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        path = tmp_path / "rows.csv"
        path.write_text("region,a\nx,1,\ny,2,\n", encoding=encoding)
        X, y = read_data(str(path), "region")
        assert y is not None
        assert (["x", "y"], [[1], [2]]) == (y.tolist(), X.tolist())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"index": True}, r"column 1 has no name, like the numbers of rows .*index=False; R: row\.names=FALSE"),
        ({"sep": ";"}, "the cells are separated by ';': save it with commas between the cells and points in the num"),
        ({"sep": ";", "decimal": ","}, "the rows have more cells than the header has names: save it with commas"),
        ({"sep": "\t"}, "the cells are separated by .*: save it with commas"),
        ({"index": True, "header": ["a", "b", "region"], "index_label": False}, "more cells than the header has names"),
    ],
    ids=["numbers of rows", "semicolons", "decimal commas", "tabs", "names of rows"],
)
def test_another_form_of_table_is_refused(tmp_path: Path, options: dict[str, object], sentence: str) -> None:
    """What pandas would take for other columns, without a word; the last is what R's write.table writes."""
    path = tmp_path / "rows.csv"
    FRAME.assign(region=["x", "y", "x", "y"]).to_csv(path, **{"index": False, **options})
    with pytest.raises(UsageProblem, match=sentence):
        read_data(str(path), "region")


def test_a_whole_number_is_not_rounded_beside_fractions(tmp_path: Path) -> None:
    content = "id,b,region\n9007199254740993,0.5,x\n2,1.5,y\n"
    with pytest.raises(UsageProblem, match="the column 'id' holds 9007199254740993, which beside columns of fractions"):
        read(tmp_path / "rows.csv", content)
    assert ["x", "y"] == read(tmp_path / "rows.csv", content.replace("993,0.5", "993,1").replace("2,1.5", "2,1"))
