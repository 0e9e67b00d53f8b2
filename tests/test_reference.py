"""Each page of the reference is the one that the code makes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reference_pages import pages

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_page_of_the_reference_is_made_of_the_code(name: str, golden: Callable[[Path, bytes], None]) -> None:
    golden(DOCS / name, pages()[name].encode())
