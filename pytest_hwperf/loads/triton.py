"""Requests over gRPC to a model server that speaks KServe's inference protocol, as Triton does. It needs `triton`.

Its own client sends them, on one connection, which carries as many requests at once as there are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pytest_hwperf.core.errors import MeasurementError, UsageProblem
from pytest_hwperf.core.load_plans import shown_address
from pytest_hwperf.loads.http import LARGEST_ANSWER, Request, Runner
from pytest_hwperf.loads.kserve import ModelInput, arrays_for

_SIZES = [("grpc.max_receive_message_length", LARGEST_ANSWER), ("grpc.max_send_message_length", -1)]


class ModelServer:
    """Sends requests to one served model; what is no success raises."""

    def __init__(self, request: Request) -> None:
        """Connect to nothing yet.

        Args:
            request: its address is grpc://host:port/model, or …/model/version; its headers are metadata.

        Raises:
            UsageProblem: no model in the address, or tritonclient is not installed.
        """
        try:
            import tritonclient.grpc.aio as grpc
            from tritonclient.utils import InferenceServerException
        except ImportError:
            raise UsageProblem(
                "requests over gRPC are sent by tritonclient, which is not installed: "
                "pip install 'pytest-hwperf[triton]'"
            ) from None
        self._grpc, self._error = grpc, InferenceServerException
        parts = urlsplit(request.url)
        self._host = parts.netloc
        self._model, _, self._version = parts.path.strip("/").partition("/")
        if not self._model:
            raise UsageProblem(f"{shown_address(request.url)} names no model: write grpc://host:port/model")
        self._said = {"headers": dict(request.headers) or None, "client_timeout": request.timeout_s}
        self._client: Any = None

    def connect(self, loop: Runner) -> Sequence[ModelInput]:
        """Open the connection on a loop, and return the inputs of the model.

        Raises:
            MeasurementError: no such server or model; quotes what it says.
        """
        described: Sequence[ModelInput] = loop.run(self._described())
        return described

    def prepared(self, batch: Any, inputs: Sequence[ModelInput]) -> list[Any]:
        """Return a batch of rows as the inputs of a request.

        Raises:
            UsageProblem: rows that do not fit the inputs.
        """
        types, tensors = {one.name: one.datatype for one in inputs}, []
        for name, array in arrays_for(batch, inputs).items():
            tensor = self._grpc.InferInput(name, [*array.shape], types[name])
            tensors.append(tensor.set_data_from_numpy(array))
        return tensors

    async def send(self, tensors: Sequence[Any]) -> Any:
        """Send one request and return its answer, whose outputs `as_numpy(name)` gives.

        Raises:
            MeasurementError: no answer in time, no connection, or a refusal.
        """
        try:
            return await self._client.infer(self._model, tensors, model_version=self._version, **self._said)
        except self._error as error:
            raise MeasurementError(f"{self._host}, model {self._model}: {error}") from None

    async def _described(self) -> Sequence[ModelInput]:
        self._client = self._grpc.InferenceServerClient(
            self._host, channel_args=_SIZES
        )  # it belongs to the loop that runs now
        try:
            answer = await self._client.get_model_metadata(self._model, self._version, **self._said)
        except self._error as error:
            await self._client.close()
            raise MeasurementError(f"{self._host}, model {self._model}: {error}") from None
        return tuple(ModelInput(name=one.name, datatype=one.datatype) for one in answer.inputs)

    @contextmanager
    def opened(self, loop: Runner) -> Iterator[None]:
        """Close the connection at the end."""
        try:
            yield
        finally:
            loop.run(self._client.close())
