"""What /proc/cpuinfo says of the first processor."""

from pathlib import Path


def read_processor(path: Path) -> dict[str, str]:
    """Return field → text of the first processor, {} where the file is absent (another system than Linux)."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
