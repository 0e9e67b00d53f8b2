"""The walk over powercap trees, and the choice of zones that add up."""

import errno
import shutil
from pathlib import Path

from fakes.powercap import AMD, CLIENT, DIES, HALF_MIRRORED, INTEL_RANGE, SOCKETS, Tree, plant, refusing
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_hwperf.meters.rapl import choose_zones, find_zones
from pytest_hwperf.meters.sources import Zone


def readable(_zone: Zone) -> str:
    return ""


def chosen_ids(zones: tuple[Zone, ...]) -> list[str]:
    return [zone.id for zone in zones]


def test_nested_folders_and_flat_links_hold_the_same_zones(tmp_path: Path) -> None:
    """Each zone is found once, with its name and range, by its real path."""
    for layout in (CLIENT, DIES, HALF_MIRRORED):
        tree = plant(tmp_path / str(len(layout)), layout)
        expected = {str(tree.zone(zone)): (zone, name, max_uj) for zone, (name, _, max_uj) in layout.items()}
        for place in (tree.nested, tree.flat):
            found = find_zones(str(place))
            assert expected == {zone.path: (zone.id, zone.name, zone.max_uj) for zone in found}
            assert len(layout) == len(found)


def test_four_zones_called_dram_are_four(tmp_path: Path) -> None:
    """Packages come by their number, each followed by its own memory."""
    chosen, _ = choose_zones(find_zones(str(plant(tmp_path, SOCKETS).nested)), readable)
    expected = [f"intel-rapl:{index}{child}" for index in (3, 2, 1, 0) for child in ("", ":0")]
    assert expected == chosen_ids(chosen)
    assert 8 == len({zone.path for zone in chosen})


def test_ids_are_hexadecimal_and_packages_sort_by_number(tmp_path: Path) -> None:
    """`intel-rapl:a` is the eleventh zone; package-10 comes after package-9."""
    layout = {f"intel-rapl:{index:x}": (f"package-{index}", index, 1000) for index in range(12)}
    chosen, _ = choose_zones(find_zones(str(plant(tmp_path, layout).nested)), readable)
    assert [f"package-{index}" for index in range(12)] == [zone.name for zone in chosen]


def test_dies_of_one_package_are_added(tmp_path: Path) -> None:
    """Each die has a zone of its own."""
    chosen, _ = choose_zones(find_zones(str(plant(tmp_path, DIES).nested)), readable)
    dies = [f"package-{n // 2}-die-{n % 2}" for n in range(10)]
    assert [*dies, "package-5", "dram"] == [zone.name for zone in chosen]


def test_the_twin_stands_in_where_the_plain_zone_is_missing(tmp_path: Path) -> None:
    for backend in ("intel-rapl-mmio", "intel-rapl-tpmi"):
        layout = {f"{backend}:0": ("package-0", 5, 1000), f"{backend}:0:0": ("dram", 7, 1000)}
        chosen, _ = choose_zones(find_zones(str(plant(tmp_path / backend, layout).nested)), readable)
        assert [f"{backend}:0", f"{backend}:0:0"] == chosen_ids(chosen)


def test_a_package_that_nobody_can_read_is_refused_with_its_answer(tmp_path: Path) -> None:
    """Its memory goes with it: memory is added to chosen packages only."""
    zones = find_zones(str(plant(tmp_path, SOCKETS).nested))
    chosen, refused = choose_zones(zones, lambda zone: "EIO" if zone.name == "package-2" else "")
    assert {"intel-rapl:1": "EIO"} == {zone.id: answer for zone, answer in refused.items()}
    assert 6 == len(chosen)


def test_unreadable_memory_leaves_the_package(tmp_path: Path) -> None:
    zones = find_zones(str(plant(tmp_path, SOCKETS).nested))
    chosen, refused = choose_zones(zones, lambda zone: "ENODATA" if zone.id == "intel-rapl:3:0" else "")
    assert 7 == len(chosen)
    assert ["intel-rapl:3:0"] == [zone.id for zone in refused]


def test_links_that_dangle_hold_no_zone(tmp_path: Path) -> None:
    """A container that hides the devices leaves the class folder's links behind."""
    tree = plant(tmp_path, CLIENT)
    shutil.rmtree(tree.nested)
    assert () == find_zones(str(tree.flat))


def test_a_zone_without_a_readable_name_is_skipped(tmp_path: Path) -> None:
    tree = plant(tmp_path, AMD)
    (tree.zone("intel-rapl:0:0") / "name").unlink()
    assert ["intel-rapl:0"] == chosen_ids(find_zones(str(tree.nested)))


def test_a_range_that_is_refused_or_is_no_range_is_unknown(tmp_path: Path) -> None:
    tree = plant(tmp_path, AMD)
    found = find_zones(str(tree.nested), refusing(errno.EACCES, "max_energy_range_uj"))
    assert [None, None] == [zone.max_uj for zone in found]
    for content in ("", "0", "many"):
        (tree.zone("intel-rapl:0") / "max_energy_range_uj").write_text(content)
        assert [None] == [zone.max_uj for zone in find_zones(str(tree.nested)) if zone.name == "package-0"]


def test_other_folders_are_not_entered(tmp_path: Path) -> None:
    """`subsystem` leads back to all zones, and other control types hold no RAPL."""
    tree: Tree = plant(tmp_path, AMD)
    (tree.nested / "dtpm/dtpm:0").mkdir(parents=True)
    (tree.nested / "dtpm/dtpm:0/name").write_text("package-9\n")
    assert ["intel-rapl:0", "intel-rapl:0:0"] == chosen_ids(find_zones(str(tree.nested)))


@settings(max_examples=30)
@given(data=st.data())
def test_the_choice_does_not_depend_on_order_or_on_zones_that_must_not_be_added(data: st.DataObject) -> None:
    """psys, core, uncore and MMIO twins beside the packages change nothing."""

    def zone(name: str, label: str) -> Zone:
        return Zone(path=f"/x/{name}", name=label, max_uj=INTEL_RANGE)

    sockets = range(data.draw(st.sampled_from([1, 2, 17])))
    wanted = [
        *(zone(f"intel-rapl:{n:x}", f"package-{n}") for n in sockets),
        *(zone(f"intel-rapl:{n:x}:0", "dram") for n in sockets),
    ]
    others = [
        zone("intel-rapl:ff", "psys"),
        *(zone(f"intel-rapl:{n:x}:1", "core") for n in sockets),
        *(zone(f"intel-rapl:{n:x}:2", "uncore") for n in sockets),
        *(zone(f"intel-rapl-mmio:{n:x}", f"package-{n}") for n in sockets),
        *(zone(f"intel-rapl-mmio:{n:x}:0", "dram") for n in sockets),
    ]
    added = data.draw(st.lists(st.sampled_from(others), unique=True))
    shuffled = data.draw(st.permutations([*wanted, *added]))

    chosen, refused = choose_zones(shuffled, lambda _zone: "")
    assert {z.path for z in wanted} == {z.path for z in chosen}
    assert [f"package-{n}" for n in sockets] == [z.name for z in chosen if z.name != "dram"]
    assert (len(wanted), {}) == (len(chosen), refused)
