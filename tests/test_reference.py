"""Each page of the reference is the one that the code makes."""

from pathlib import Path

import pytest
from reference_pages import pages

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_page_of_the_reference_is_made_of_the_code(name: str, request: pytest.FixtureRequest) -> None:
    page, actual = DOCS / name, pages()[name]
    if request.config.getoption("--update-golden"):
        page.parent.mkdir(exist_ok=True)
        page.write_text(actual, encoding="utf-8")
    assert actual == page.read_text(encoding="utf-8"), "run this test with --update-golden"
