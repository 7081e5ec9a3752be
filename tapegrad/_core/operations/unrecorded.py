"""NumPy's result where nothing is recorded, converted to ours."""

from __future__ import annotations

from ..tensor.trace import fixed, lost_derivative, steered, tensor_like
from ..tensor.values import differentiates


def unrecorded(numpy_function, *operands, **keywords):
    """A NumPy function of operands without derivative: a tensor if an operand is one."""
    name = numpy_function.__name__
    for key, value in keywords.items():
        if differentiates(value):
            raise lost_derivative(
                f"tapegrad.{name}: {key} is recorded, so its derivative would be lost; give it as "
                f"{key}=t.detach() if no derivative is needed",
                value,
            )
    keywords = {key: fixed(value, f"{name}()") for key, value in keywords.items()}
    made = steered(numpy_function, *operands, **keywords)
    if isinstance(made, tuple):
        return tuple([tensor_like(part, *operands) for part in made])
    return tensor_like(made, *operands)
