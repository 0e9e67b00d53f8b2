"""A third-party ONNX file in ONNX Runtime on the processor: what `hwperf compare` measures."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.core.errors import MeasurementError, UsageProblem
from pytest_hwperf.host.files import is_file
from pytest_hwperf.scenarios.ort import open_session, rejection_errors, session_conditions
from pytest_hwperf.scenarios.prepared import PreparedScenario

_TYPES: Mapping[str, str] = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(bool)": "bool",
}
_ROWS_AND_CLASSES = 2  # axes of probabilities


def onnx_file(path: Path, threads: int = 1) -> PreparedScenario:
    """Return an ONNX file as a scenario.

    Raises:
        UsageProblem: no such file.
    """
    if not is_file(path):
        raise UsageProblem(f"{path} is no file: give an ONNX file, or module:function")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return PreparedScenario(
        name="onnx_file",
        imports=("onnxruntime",),
        conditions=session_conditions(threads),
        context={"model": digest},
        model_bytes=path.stat().st_size,
        size_source="onnx file",
        classifies=True,
        load=partial(_load, path, threads),
    )


def _load(path: Path, threads: int) -> "OnnxFilePredictor":
    """Open a session on the file."""
    try:
        session = open_session(path, threads)
    except rejection_errors() as error:
        first = str(error).partition("\n")[0]
        raise UsageProblem(f"{path} is no model that ONNX Runtime can run: {first}") from error
    if len(session.get_inputs()) != 1:
        names = ", ".join(one.name for one in session.get_inputs())
        raise UsageProblem(
            f"{path} has the inputs {names}: models with one input are compared; give module:function of a "
            "function that feeds it"
        )
    return OnnxFilePredictor(path, session)


class OnnxFilePredictor:
    """A session on a third-party file, ready to be called."""

    def __init__(self, path: Path, session: Any) -> None:
        self._path = path
        self._run = session.run
        self._input = session.get_inputs()[0]
        self._outputs = [session.get_outputs()[0].name]

    def batches(self, X: Any, batch_size: int) -> Sequence[Any]:
        """Split `X` into C-contiguous batches of the type of the model's input.

        Raises:
            UsageProblem: the model takes another batch size, or something else than arrays of numbers.
        """
        import numpy as np

        kind = _TYPES.get(self._input.type)
        if kind is None:
            raise UsageProblem(
                f"{self._path} takes {self._input.type}: give module:function of a function that feeds it"
            )
        fixed = self._input.shape[0] if self._input.shape else None
        if isinstance(fixed, int) and fixed != batch_size:
            raise UsageProblem(f"{self._path} takes batches of {fixed} rows and no others: give --batch-size={fixed}")
        rows = np.ascontiguousarray(X, dtype=kind)
        batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        whole = len(batches) == 1 or len(batches[-1]) == batch_size or not isinstance(fixed, int)
        return batches if whole else batches[:-1]

    def predict(self, batch: Any) -> Any:
        """Return the model's first output."""
        return self._run(self._outputs, {self._input.name: batch})[0]

    def labels(self, outputs: Any) -> Any:
        """Return one label per row: the first output as it is, or the class of the largest score.

        Raises:
            MeasurementError: the output has another shape.
        """
        import numpy as np

        values = np.asarray(outputs)
        if values.ndim == 1:
            return values
        if values.ndim == _ROWS_AND_CLASSES and values.shape[1] > 1:
            return values.argmax(axis=1)
        raise MeasurementError(
            f"the first output of {self._path} has the shape {values.shape}: labels follow from one label or from "
            "several scores per row; leave the labels out, or give module:function that returns labels"
        )

    def scope(self) -> AbstractContextManager[object]:
        """Do nothing: the session's own pool was sized when it was opened."""
        return nullcontext()
