"""Which installed modules a process has imported, and what its tree had run before each of them."""

from collections.abc import Mapping
from pathlib import Path

from pytest_hwperf.host.import_order import ImportOrder

ENGINE = "/env/lib/site-packages/engine.py"


def asked_after(source: str, tree: Path) -> Mapping[str, str]:
    """Return what an installed package comes with that is imported after a module of the tree."""
    module = tree / "settings.py"
    module.write_text(source)
    order = ImportOrder(tree, begin=lambda _: None)
    for file in (str(module), ENGINE):
        with order.importing(file):
            pass
    return order.asked(order.of({"engine": ENGINE}))


def test_a_package_comes_with_what_the_tree_had_run(tmp_path: Path) -> None:
    """It may look for a constant of a loaded module; a function that nobody has called yet tells it nothing."""
    fast = asked_after("ROUNDS = 1\ndef work(): return 1\n", tmp_path)
    same = asked_after("ROUNDS = 1\ndef work(): return 2\n", tmp_path)
    slow = asked_after("ROUNDS = 2\ndef work(): return 1\n", tmp_path)
    assert ["engine"] == list(fast)
    assert fast == same
    assert fast != slow
