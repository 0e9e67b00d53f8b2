"""The interface of a PyTorch module, found by trying it on rows of the data."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from pytest_hwperf.records.contracts import Predictions, Predictor
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem, install
from pytest_hwperf.runtimes.estimators import (
    CheckedRows,
    FittedModel,
    HashingFile,
    Output,
    choose_rows_of,
    digest_rows,
    inspect_form,
    is_module,
    one_line,
    score_kind,
)
from pytest_hwperf.runtimes.own_call import ESTIMATOR_ERRORS, choose_checked

TORCH_REFERENCE = "torch_fp32"  # what all scenarios of a module are compared with
MOST_CHECKED = 64  # rows on which a form of a module is compared with it
_PLAIN = (bool, int, float, str, type(None))  # attributes that belong to the structure of a module


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModule(FittedModel):
    """A trained module of PyTorch; its classes are the positions of its scores."""

    call = "the module"
    reference = TORCH_REFERENCE

    shape: tuple[int, ...]  # of a row
    dtype: str  # of a row: "float32", "int64" or "bool"

    def rows(self, X: Any) -> Any:
        rows = module_rows(X)
        if (rows.shape[1:], str(rows.dtype)) != (self.shape, self.dtype):
            raise MeasurementError(
                f"the rows of X are {rows.dtype} of shape {rows.shape[1:]}, and {self.kind} was prepared for "
                f"{self.dtype} of shape {self.shape}"
            )
        return rows

    def checked(self, X: Any) -> CheckedRows:
        import numpy as np

        rows = self.rows(X)
        positions = choose_checked(rows, np.zeros(len(rows)), MOST_CHECKED)
        chosen = np.ascontiguousarray(rows[positions])

        def own() -> Predictions:
            outputs = predict_eagerly(self.model, chosen)
            scored = self.output in {"probabilities", "scores"}
            return Predictions(labels=self.labels(outputs), probabilities=outputs if scored else None)

        return CheckedRows(
            digest=digest_rows(chosen),
            positions=lambda: positions,
            rows=lambda: chosen,
            own=own,
            rounded=lambda: "",
        )

    def labels(self, outputs: Any) -> Any:
        import numpy as np

        values = np.asarray(outputs)
        return values.argmax(axis=1) if self.output in {"probabilities", "scores"} else values

    def predictor(
        self, predict: Callable[[Any], Any], scope: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> Predictor:
        """Return a form that takes rows, whose classes have no names."""
        made = FittedModel.predictor(self, predict, scope)
        return replace(made, unnamed_columns=self._columns)

    def _columns(self, outputs: Any) -> int | None:
        import numpy as np

        return int(np.shape(outputs)[1]) if self.output in {"probabilities", "scores"} else None


def inspect_model(model: Any, X: Any, scenario: str) -> FittedModel:
    """Return the interface of an estimator or a module, and raise as `inspect_form` and `inspect_module` do."""
    return inspect_module(model, X, scenario) if is_module(model) else inspect_form(model, X)


def inspect_module(model: Any, X: Any, scenario: str) -> FittedModule:
    """Try a module on rows of `X` in evaluation mode and return its interface; its own mode is put back."""
    require_torch(scenario)
    _require_module(model, scenario)
    _require_float32(model, scenario)
    rows = module_rows(X)
    tried = choose_rows_of(rows, MOST_CHECKED)
    try:
        outputs = _only_tensor(model, predict_eagerly(model, tried))
    except ESTIMATOR_ERRORS as problem:
        raise UsageProblem(
            f"{type(model).__name__} does not take rows of X, {rows.dtype} of shape {rows.shape[1:]} "
            f"({one_line(problem)}): give X in the shape and type that the module takes"
        ) from problem
    if outputs.ndim == 0 or len(outputs) != len(tried):
        raise MeasurementError(
            f"{type(model).__name__} gives outputs of shape {outputs.shape} for {len(tried)} rows: one row of outputs "
            "is needed for each row of X"
        )
    output, classes = output_of(outputs)
    return FittedModule(
        model=model,
        output=output,
        classes=classes,
        shape=rows.shape[1:],
        dtype=str(rows.dtype),
        digest=digest_module(model),
    )


def output_of(outputs: Any) -> tuple[Output, Any | None]:
    """Return what the outputs of a module are, and their classes.

    A module that returns whole numbers of shape (n,) gives labels. One that returns a matrix of two or more columns is
    a classifier, whose label is the position of the largest: the columns are probabilities if they are not negative and
    each row sums to one, else scores. Anything else are values.
    """
    import numpy as np

    values = np.asarray(outputs)
    if values.ndim == 1 and values.dtype.kind in "iub":
        return "labels", np.unique(values)
    kind = score_kind(values) if values.dtype.kind == "f" else "values"
    return kind, None if kind == "values" else np.arange(values.shape[1])


def module_rows(X: Any) -> Any:
    """Turn `X` into a C-contiguous array of any shape, rows first: numbers as float32, whole ones as int64."""
    import numpy as np

    given = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    kinds = {"f": np.float32, "O": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}
    try:
        rows = np.require(given, dtype=kinds[given.dtype.kind], requirements=("C", "W"))
    except (KeyError, TypeError, ValueError) as problem:
        raise MeasurementError(
            f"X holds values that are not numbers (dtype {given.dtype}): a module is fed an array of numbers, so "
            "encode text first, or measure the model as a plain callable"
        ) from problem
    if rows.ndim == 0 or len(rows) == 0:
        raise MeasurementError("X has no rows: nothing can be measured on empty data")
    return rows


def predict_eagerly(module: Any, rows: Any) -> Any:
    """Return what a module returns for an array of rows, in evaluation mode, as an array on the host.

    Something else than a tensor is returned as it is.
    """
    import torch

    place = next((one.device for one in module.parameters()), torch.device("cpu"))
    with evaluating(module), torch.inference_mode():
        made = module(torch.from_numpy(rows).to(place))
        return made.cpu().numpy() if isinstance(made, torch.Tensor) else made


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Switch a module and its parts to evaluation mode, and each back to its own."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def copy_of(fitted: FittedModule) -> Any:
    """Copy a module, on the processor and in evaluation mode: the user's own is never changed."""
    try:
        return deepcopy(fitted.model).cpu().eval()
    except ESTIMATOR_ERRORS as problem:
        raise ScenarioUnavailable(
            f"{fitted.kind} cannot be copied ({one_line(problem)}), and a scenario never changes your own module: "
            "measure it as a plain callable"
        ) from problem


def digest_module(module: Any) -> str:
    """Hash weights, buffers, structure and the bytecode of each `forward`; nothing is pickled."""
    import torch

    total = hashlib.sha256()
    for name, part in module.named_modules():
        kind, plain = type(part), {key: value for key, value in vars(part).items() if isinstance(value, _PLAIN)}
        plain.pop("training", None)
        total.update(
            f"{name}|{kind.__module__}.{kind.__qualname__}|{part.extra_repr()}|{sorted(plain.items())}".encode()
        )
        total.update(_bytecode(kind))
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        total.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}".encode())
        total.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return total.hexdigest()[:32]


def size_of(module: Any) -> int:
    """Return the bytes of a module's state as `torch.save` writes it."""
    import torch

    file = HashingFile()
    torch.save(module.state_dict(), file)
    return file.written


@contextmanager
def untraced_compiler() -> Iterator[None]:
    """Take away whoever listens to the trace beside PyTorch itself, which TORCH_TRACE asks to write it to a file.

    pytest listens to every logger that keeps its records to itself: hundreds of them would be made within the timed
    first call, and shown with a failed test.
    """
    log = logging.getLogger("torch.__trace")
    others = [handler for handler in log.handlers if type(handler).__module__.partition(".")[0] != "torch"]
    for handler in others:
        log.removeHandler(handler)
    try:
        yield
    finally:
        for handler in others:
            log.addHandler(handler)


def require_torch(scenario: str) -> None:
    try:
        import torch  # noqa: F401 - to see that it can be
    except ImportError as missing:
        raise ScenarioUnavailable(f"{scenario} needs PyTorch ({missing}): {install('torch')}") from missing


def _bytecode(kind: type) -> bytes:
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    if not isinstance(code, CodeType):
        return b""
    constants = [one for one in code.co_consts if not isinstance(one, CodeType)]  # whose text has an address
    return code.co_code + repr((code.co_names, constants)).encode()


def _require_module(model: Any, scenario: str) -> None:
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type):
        raise UsageProblem(f"the model is the class {name}, not a trained module: give an instance, as {name}(…) makes")
    if not is_module(model):
        raise UsageProblem(
            f"the model is a {name}, and {scenario} takes a torch.nn.Module: give one, or name scenarios of {name}"
        )
    if hasattr(model, "_orig_mod"):
        raise UsageProblem(
            f"the model is compiled already, so that {scenario} would not be what its name says: give the module "
            "itself, and name torch_compile"
        )


def _only_tensor(model: Any, made: Any) -> Any:
    if not hasattr(made, "ndim"):
        raise UsageProblem(
            f"{type(model).__name__} returns a {type(made).__name__}, and scenarios take one tensor: wrap it in a "
            "module whose forward returns the tensor, or measure it as a plain callable"
        )
    return made


def _require_float32(model: Any, scenario: str) -> None:
    import torch

    kinds = {str(one.dtype).removeprefix("torch.") for one in model.parameters() if one.is_floating_point()}
    if others := sorted(kinds - {str(torch.float32).removeprefix("torch.")}):
        raise ScenarioUnavailable(
            f"the weights of {type(model).__name__} are {', '.join(others)}, and {scenario} is about a float32 module: "
            "give a copy in float32 (copy.deepcopy(model).float()), or measure it as a plain callable"
        )
