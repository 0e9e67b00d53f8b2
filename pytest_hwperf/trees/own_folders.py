"""The folders that each side has for itself: what one writes there, the other can neither read nor overwrite."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

# What programs have loaded from a network, in the user's cache folder: hundreds of megabytes, the same for both sides.
_DOWNLOADS = ("huggingface", "torch", "keras", "kagglehub", "whisper", "clip", "sentence_transformers")
_CACHE = "XDG_CACHE_HOME"


def own_folders(place: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Make a side's own temporary folder and cache folder in `place`; return the variables that name them.

    Both last as long as the pairs, so that what a first process has prepared serves those after it.
    """
    temporary, cache = place / "tmp", place / "cache"
    for folder in (temporary, cache):
        folder.mkdir(parents=True, exist_ok=True)
    theirs = Path(environment.get(_CACHE) or Path(environment.get("HOME") or "/", ".cache"))
    for name in _DOWNLOADS:
        if (theirs / name).is_dir():
            with suppress(FileExistsError):
                (cache / name).symlink_to((theirs / name).resolve())
    return {"TMPDIR": str(temporary), _CACHE: str(cache)}
