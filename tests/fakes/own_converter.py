"""The text of a module with an estimator of a project's own, and the converter that it has registered for it."""

from collections.abc import Iterator
from contextlib import contextmanager

OWN = '''
import numpy as np
from onnx import TensorProto
from skl2onnx import update_registered_converter
from skl2onnx.common.shape_calculator import calculate_linear_regressor_output_shapes
from sklearn.linear_model import LinearRegression

X = np.random.default_rng(0).random((64, 4), dtype=np.float32)


class Own(LinearRegression):
    pass


def convert(scope, operator, container):
    """Write the sum of products, and some additions of nothing."""
    {first}
    model, last = operator.raw_operator, scope.get_unique_variable_name("product")
    weights = scope.get_unique_variable_name("weights")
    container.add_initializer(weights, TensorProto.FLOAT, [4, 1], [float(one) for one in model.coef_])
    rows, name = operator.inputs[0].full_name, scope.get_unique_operator_name("p")
    container.add_node("MatMul", [rows, weights], last, name=name)
    for number in [float(model.intercept_)] + [0.0] * {additions}:
        bias, new = scope.get_unique_variable_name("bias"), scope.get_unique_variable_name("sum")
        container.add_initializer(bias, TensorProto.FLOAT, [1], [number])
        container.add_node("Add", [last, bias], new, name=scope.get_unique_operator_name("a"))
        last = new
    container.add_node("Identity", [last], operator.outputs[0].full_name, name=scope.get_unique_operator_name("i"))


update_registered_converter(Own, "ProjectsOwn", calculate_linear_regressor_output_shapes, convert)


def model():
    return Own().fit(X, X[:, 0])
'''


def own_module(*, additions: int | str = 0, first: str = "") -> str:
    """Return the text; `first` is a line at the beginning of the converter, `additions` a number or an expression."""
    return OWN.format(additions=additions, first=first or "pass")


@contextmanager
def as_before() -> Iterator[None]:
    """Forget afterwards which converters were registered within."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common import _registration as pools

    registries = (sklearn_operator_name_map, pools._converter_pool, pools._shape_calculator_pool)
    kept = [dict(registry) for registry in registries]
    try:
        yield
    finally:
        for registry, before in zip(registries, kept, strict=True):
            registry.clear()
            registry.update(before)
