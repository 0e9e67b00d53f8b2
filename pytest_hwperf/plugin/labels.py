"""Labels: the names of measurements within a test."""

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import shortened

LONGEST_LABEL = 200  # characters; also of the name of a recorded metric


def checked_label(label: object) -> str:
    """Return a label that a test gives, which has to fit into a line and into the name of a stored run."""
    if isinstance(label, str) and label.isprintable() and len(label) <= LONGEST_LABEL:
        return label
    shown = shortened(label) if isinstance(label, str) else repr(label)
    raise UsageProblem(
        f"label={shown}: a label is printable text of at most {LONGEST_LABEL} characters, such as label='batch 32'"
    )


def label_of_models(new_name: str, old_name: str) -> str:
    """Return the label of a comparison that was given none; the names of its models may hold any character."""
    label = f"{new_name} against {old_name}"
    if len(label) > LONGEST_LABEL:
        raise UsageProblem(
            f"hwperf.compare: {shortened(label)} is longer than a label of {LONGEST_LABEL} characters; give label="
        )
    return label
