"""A stand-in for the module `onnxruntime` on a machine with a GPU: its providers are what a test says.

A session answers as ONNX Runtime does of its providers and their options, and computes on the processor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_hwperf.runtimes.ort import open_session

CPU = "CPUExecutionProvider"


@dataclass
class FakeRuntime:
    """`onnxruntime` as a scenario uses it.

    Args:
        available: providers that this build has.
        effective: providers that a session gets; None gives those that are asked for, and the processor's.
        options: of a provider where they differ from those asked for.
        partial: the model has a part that runs on the processor.
    """

    available: Sequence[str]
    effective: Sequence[str] | None = None
    options: Mapping[str, str] | None = None
    partial: bool = False
    opened: list["FakeSession"] = field(default_factory=list)

    def get_available_providers(self) -> list[str]:
        """As of the module."""
        return list(self.available)

    def InferenceSession(  # noqa: N802 - the runtime's own name
        self, model: Any, options: Any, *, providers: Any, enable_fallback: int
    ) -> "FakeSession":
        """Open a session, or refuse as the runtime does."""
        from onnxruntime.capi.onnxruntime_pybind11_state import Fail

        assert 0 == enable_fallback  # with it, the processor takes over without a word
        if self.partial and _must_be_whole(options):
            raise Fail("nodes that are assigned to the default CPU EP, but fallback to CPU EP has been disabled")
        [(name, asked)] = providers
        given = {name: {**asked, **(self.options or {}), "gpu_mem_limit": "18446744073709551615"}}
        real = open_session(Path(model) if isinstance(model, str) else model, threads=1)
        session = FakeSession(real, [name, CPU] if self.effective is None else self.effective, given)
        self.opened.append(session)
        return session


@dataclass
class FakeSession:
    """A session, and how often it was run."""

    real: Any
    providers: Sequence[str]
    options: Mapping[str, Mapping[str, str]]
    runs: int = 0

    def get_providers(self) -> list[str]:
        """As of a session."""
        return list(self.providers)

    def get_provider_options(self) -> Mapping[str, Mapping[str, str]]:
        """As of a session."""
        return self.options

    def get_inputs(self) -> Any:
        """As of a session."""
        return self.real.get_inputs()

    def get_outputs(self) -> Any:
        """As of a session."""
        return self.real.get_outputs()

    def run(self, names: Any, inputs: Any) -> Any:
        """As of a session."""
        self.runs += 1
        return self.real.run(names, inputs)


def _must_be_whole(options: Any) -> bool:
    try:
        return bool(options.get_session_config_entry("session.disable_cpu_ep_fallback") == "1")
    except RuntimeError:  # there is no such entry
        return False
