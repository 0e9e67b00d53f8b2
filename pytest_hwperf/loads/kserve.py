"""Version 2 of the inference protocol of model servers over HTTP, as KServe, Triton and others speak it.

References:
    github.com/kserve/open-inference-protocol, `rest/inference_rest.md`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

from pytest_hwperf.core.errors import MeasurementError, UsageProblem
from pytest_hwperf.core.load_plans import shown_address
from pytest_hwperf.core.records import replace
from pytest_hwperf.loads.http import Client, Request

_TYPES: Mapping[str, str] = MappingProxyType(  # of the protocol → of NumPy
    {
        "BOOL": "bool",
        **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
        **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
        **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
        "BYTES": "object",
    }
)
_INFER = re.compile(r"(https?://.+/v2/models/[^/?]+(?:/versions/[^/?]+)?)/infer")


def is_infer(url: str) -> bool:
    """Whether an address is that of a model's inference over HTTP: http://host/v2/models/NAME/infer."""
    return _INFER.fullmatch(url) is not None


def inputs_of(request: Request) -> Mapping[str, str]:
    """Ask a server for the inputs of the model at `request.url`, name → type, such as "FP32"."""
    import asyncio

    found = _INFER.fullmatch(request.url)
    asked = replace(request, url=found[1] if found else request.url, method="GET")
    with ThreadPoolExecutor(1) as thread:  # in which no event loop runs yet
        answer = thread.submit(lambda: asyncio.run(Client(asked, connections=1).sent_once())).result()
    try:
        return {one["name"]: one["datatype"] for one in json.loads(answer)["inputs"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"{type(error).__name__} {error}"
        raise MeasurementError(f"GET {shown_address(asked.url)} does not describe a model: {said}") from None


def infer_bodies(batches: Iterable[Any], inputs: Mapping[str, str]) -> list[bytes]:
    """Return a JSON body for each batch of rows."""
    bodies = []
    for batch in batches:
        tensors = [
            {"name": name, "shape": [*array.shape], "datatype": inputs[name], "data": array.ravel().tolist()}
            for name, array in _arrays_for(batch, inputs).items()
        ]
        bodies.append(json.dumps({"inputs": tensors}).encode())
    return bodies


def _arrays_for(batch: Any, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the array of each input, in its type: rows are those of the only one, several are given by name."""
    import numpy as np

    given = batch if isinstance(batch, Mapping) else {next(iter(inputs), ""): batch}
    if {*given} != {*inputs}:
        shown = ", ".join(f"{name} ({datatype})" for name, datatype in inputs.items())
        raise UsageProblem(
            f"the served model takes {shown or 'no input'}: give its rows, of several inputs as a mapping name → array"
        )
    try:
        return {
            name: np.ascontiguousarray(np.asarray(given[name]).astype(_TYPES[datatype]))
            for name, datatype in inputs.items()
        }
    except KeyError as error:
        raise UsageProblem(f"the served model has an input of type {error}. Known: {', '.join(_TYPES)}") from None
    except (TypeError, ValueError) as error:
        raise UsageProblem(f"the rows do not fit what the served model takes, {inputs}: {error}") from None
