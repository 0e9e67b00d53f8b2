"""The boards that CUDA shows to this process.

Source: CUDA programming guide, "CUDA environment variables".
"""

import re
from collections.abc import Callable, Mapping, Sequence

from pytest_hwperf.core.errors import MeterUnavailable
from pytest_hwperf.meters.gpu.nvml_library import Board, Library

_INDEX = re.compile(r"[0-9]{1,4}")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_BY_ADDRESS = "PCI_BUS_ID"  # the order of NVML; CUDA's own is the fastest first


def boards_of(library: Library, environ: Mapping[str, str]) -> tuple[Board, ...]:
    """Return the boards of this machine that CUDA shows to this process; at least one."""
    boards = library.boards()
    if not boards:
        raise MeterUnavailable("NVIDIA's driver shows no board.")
    return visible_boards(boards, environ, library.board_of_mig)


def visible_boards(
    boards: Sequence[Board], environ: Mapping[str, str], board_of_mig: Callable[[str], str]
) -> tuple[Board, ...]:
    """Return the boards that CUDA shows to this process, by index; each once."""
    if _VISIBLE not in environ:
        return tuple(boards)
    words = [word.strip() for word in environ[_VISIBLE].split(",")]
    chosen: dict[int, Board] = {}
    numbered = False
    for word in words:
        board = _find(word, boards, board_of_mig)
        if board is not None and board.index in chosen and "MIG-" not in word:
            raise MeterUnavailable(f"{_VISIBLE}={environ[_VISIBLE]!r} names a board twice: CUDA shows none then.")
        if board is None:
            break  # CUDA ignores whatever follows a name that it does not know
        numbered = numbered or bool(_INDEX.fullmatch(word))
        chosen[board.index] = board
    if not chosen:
        raise MeterUnavailable(
            f"{_VISIBLE}={environ[_VISIBLE]!r} shows this process no board. Unset it, or name one of "
            f"{', '.join(f'{board.index} ({board.uuid})' for board in boards)}."
        )
    models = {board.model for board in boards}
    if numbered and len(chosen) < len(boards) and environ.get(_ORDER) != _BY_ADDRESS and len(models) > 1:
        raise MeterUnavailable(
            f"{_VISIBLE}={environ[_VISIBLE]} counts the fastest board first, so that which board is meant is not known "
            f"among {', '.join(sorted(models))}. Set {_ORDER}={_BY_ADDRESS}, or name boards by UUID."
        )
    return tuple(chosen[index] for index in sorted(chosen))


def _find(word: str, boards: Sequence[Board], board_of_mig: Callable[[str], str]) -> Board | None:
    """Return the board of an index, of a UUID or its beginning, or of a MIG instance; None where CUDA knows none."""
    if _INDEX.fullmatch(word):
        return next((board for board in boards if board.index == int(word)), None)
    if word.startswith("MIG-"):
        # MIG-GPU-UUID/3/0 is the older form and names the board itself.
        uuid = word.removeprefix("MIG-").partition("/")[0] if word.startswith("MIG-GPU-") else board_of_mig(word)
        return next((board for board in boards if board.uuid == uuid), None)
    found = [board for board in boards if word.startswith("GPU-") and board.uuid.startswith(word)]
    return found[0] if len(found) == 1 else None
