"""CUDA as this process uses it: the boards that it may use, and the work that its frameworks have given to them.

Source: CUDA programming guide, "CUDA environment variables".
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_hwperf.core.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.meters.energy.nvml_library import Board

_INDEX = re.compile(r"[0-9]{1,4}")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_BY_ADDRESS = "PCI_BUS_ID"  # the order of NVML; CUDA's own is the fastest first


def visible_boards(
    boards: Sequence[Board], environ: Mapping[str, str], board_of_mig: Callable[[str], str]
) -> tuple[Board, ...]:
    """Return the boards that CUDA shows to this process, by index; each once.

    Args:
        boards: all, by index.
        environ: without CUDA_VISIBLE_DEVICES all boards are visible.
        board_of_mig: returns the UUID of the board of a MIG instance, "" where there is none.

    Raises:
        MeterUnavailable: the variable hides all boards, or it is ambiguous which board a number means.
    """
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


def synchronise(modules: Mapping[str, Any]) -> None:
    """Wait until PyTorch and CuPy have finished their work on the boards.

    Calls return before their work is done. Other frameworks must be waited for in the measured call itself.

    Args:
        modules: those imported, by name; a framework that is not imported has no work.

    Raises:
        MeasurementError: the work has failed; says which framework's, and how.
    """
    for name, wait in (("torch", _wait_for_torch), ("cupy", lambda cupy: cupy.cuda.Device().synchronize())):
        module = modules.get(name)
        if module is None:
            continue
        try:
            wait(module)
        except RuntimeError as error:  # both raise it with the answer of CUDA
            cause = str(error).partition("\n")[0]
            raise MeasurementError(f"{name} could not be waited for: {cause}") from error


def uses_cuda(modules: Mapping[str, Any]) -> bool:
    """Whether PyTorch has begun to use a GPU."""
    torch = modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


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


def _wait_for_torch(torch: Any) -> None:
    if torch.cuda.is_initialized():
        for device in _used_devices(torch):
            torch.cuda.synchronize(device)


def _used_devices(torch: Any) -> Iterator[int]:
    """Yield the current device and those with memory in use: waiting for an unused one would initialise it."""
    current = torch.cuda.current_device()
    for device in range(torch.cuda.device_count()):
        if device == current or _has_memory(torch, device):
            yield device


def _has_memory(torch: Any, device: int) -> bool:
    try:
        return bool(torch.cuda.memory_reserved(device))
    except RuntimeError:
        return True  # a custom allocator does not report it: rather wait than count work that is not done
