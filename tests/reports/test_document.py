"""Blocks of text in a terminal and as Markdown."""

from itertools import product

from pytest_hwperf.reports.document import (
    Block,
    Code,
    Grid,
    Listing,
    Paragraph,
    Title,
    Titled,
    as_markdown,
    as_text,
    wrapped,
)


def test_texts_are_aligned_and_notes_hang_below_them() -> None:
    rows = [Titled("a", "one two three"), Titled("longer", "four", ["five six seven"])]
    assert [
        "go",
        "",
        "Head",
        "  a       one two",
        "            three",
        "  longer  four",
        "          - five six",
        "            seven",
    ] == as_text([Paragraph("go"), Title("Head"), Listing(rows)], 20)
    assert ["one two", "  three"] == as_text([Paragraph("one two three")], 9)
    assert ["  one", "    two"] == as_text([Paragraph("one two", 1)], 8)
    assert ["  name"] == as_text([Listing([Titled("name", "")])], 80)
    assert [] == as_text([Listing([])], 80)


def test_commands_are_never_wrapped() -> None:
    """They are copied."""
    command = "  sudo " + "x" * 100
    assert ["  do  it", f"      {command}"] == as_text([Listing([Titled("do", "it", (), [command])])], 80)


def test_a_path_is_never_broken() -> None:
    path = "/sys/devices/system/cpu/intel-pstate/" + "x" * 80
    assert path in [line.strip() for line in as_text([Paragraph(f"echo {path}")], 80)]


def test_what_is_quoted_commands_no_terminal() -> None:
    row = Titled("a\x1b", "b\nc", ["d\x07"], ["e\n"])
    assert ["a\\x1b", "  f\\x1b  b\\nc", "         e\\n", "         - d\\x07"] == as_text(
        [Paragraph("a\x1b"), Listing([row._replace(title="f\x1b")])], 80
    )


def test_columns_without_room_stand_in_a_further_table() -> None:
    """Empty columns are left out, and rows that have nothing in a further table."""
    grid = Grid(["n", "p50", "none", "p95"], [["1", "2 ms", "", "3 ms"], ["64", "4 ms", "", ""], ["9", "too slow"]])
    together = ["   n   p50   p95", "   1  2 ms  3 ms", "  64  4 ms", "   9  too slow"]
    assert together == as_text([grid], 80)
    apart = ["   n   p50", "   1  2 ms", "  64  4 ms", "   9  too slow", "   n   p95", "   1  3 ms"]
    assert apart == as_text([grid], 15)


def test_wide_letters_take_two_columns() -> None:
    """And accents that stand apart take none."""
    grid = Grid(["a", "b"], [["語", "1"], ["e\u0301", "2"]])
    assert ["   a  b", "  語  1", "   e\u0301  2"] == as_text([grid], 80)


def test_every_block_has_its_markdown() -> None:
    blocks: list[Block] = [
        Title("go_1"), Paragraph("a"), Paragraph("b", 1), Paragraph("c", 1), Listing([Titled("t", "d")]),
        Title("h", 3), Grid(["x", "y"], [["1", "|"]]), Code("pip `x`"),
    ]  # fmt: skip
    assert (
        "## go&#95;1\n\na\n\n- b\n- c\n- t: d\n\n### h\n\n| x | y |\n| --- | --- |\n| 1 | &#124; |\n\n"
        "```text\npip `x`\n```\n"
    ) == as_markdown(blocks)
    assert "  pip `x`" == as_text(blocks, 80)[-1]


def test_a_title_is_shown_once() -> None:
    rows = [Titled("one", "a"), Titled("one", "b"), Titled("", "c"), Titled("one", "d")]
    assert ["one  a", "     b", "     c", "one  d"] == as_text([Listing(rows, 0)], 80)


TRADEOFFS = "hwperf tradeoffs --pairs -- tests/test_models.py::test_model"


COMMANDS = [
    (f"torch_int8 may be slower than torch_fp32. Measure in pairs: {TRADEOFFS}", TRADEOFFS),
    (f"inconclusive: {TRADEOFFS} (three pairs)", TRADEOFFS),
    (
        "the clone is shallow: get its history with `git fetch --unshallow origin main`, or ",
        "`git fetch --unshallow",
    ),
    ("Load the driver: sudo modprobe intel_rapl_msr (on your host); containers see it too", "sudo modprobe intel"),
]


def test_a_command_stands_on_one_line() -> None:
    """In two lines it would be two commands once it is pasted; the text around it is wrapped."""
    for (text, command), width in product(COMMANDS, (30, 45, 60, 80)):
        lines = wrapped(text, width)
        assert any(command in line for line in lines)
        assert text.split() == " ".join(lines).split()
        assert all(len(line) <= width for line in lines if command not in line)
