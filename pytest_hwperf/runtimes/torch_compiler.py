"""PyTorch's compiler, which takes seconds to import: what a fresh process imports before it loads a compiled module."""

import warnings

with warnings.catch_warnings(action="ignore"):  # of its parts about each other, which a project may have made errors
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401 - imported is what it is for
