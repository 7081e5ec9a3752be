"""Functions of complex arguments: derivatives of holomorphic ones, and errors for others."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.complex_tensors import (
    ComplexTensor,
    combined,
    imag_part,
    is_complex_number,
)
from .._core.tensor.pytree import holds_complex


def refuse_complex(name: str, trees) -> None:
    """Refuse complex arguments of a transform that gives derivatives of second order."""
    if holds_complex(list(trees)):
        raise TypeError(
            f"tapegrad.{name}: an argument is complex; second derivatives are of real numbers: "
            "write the function in the real and the imaginary part"
        )


def refuse_two_complex(name: str, args, argnums, out) -> None:
    """Refuse the matrix of a complex result by complex arguments: it would be four real ones."""
    numbers = [argnums] if isinstance(argnums, (int, np.integer)) else argnums
    if holds_complex(out) and any(holds_complex(args[number]) for number in numbers):
        raise TypeError(
            f"tapegrad.{name}: the result and an argument are complex; take the Jacobian of the "
            "real and of the imaginary part of the result, or vjp and jvp"
        )


def as_complex_as(tree, like):
    """A tree of derivatives in which the real ones of complex arguments are complex."""
    kinds = (list, tuple)
    if isinstance(like, dict) and isinstance(tree, dict):
        return {key: as_complex_as(one, like.get(key)) for key, one in tree.items()}
    if isinstance(like, kinds) and isinstance(tree, kinds) and len(like) == len(tree):
        made = [as_complex_as(*pair) for pair in zip(tree, like, strict=True)]
        return made if type(tree) is list else tuple(made)
    needed = type(like) is ComplexTensor or is_complex_number(like)
    real = isinstance(tree, (int, float, np.ndarray, rt.Tensor)) and not is_complex_number(tree)
    return combined(tree, imag_part(tree)) if needed and real else tree


def conjugated(tree):
    """A tree of derivatives with the conjugate of each."""
    if isinstance(tree, dict):
        return {key: conjugated(one) for key, one in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)([conjugated(one) for one in tree])
    if isinstance(tree, complex) and not isinstance(tree, np.generic):
        return tree.conjugate()
    return PUBLIC["conj"](tree) if type(tree) is ComplexTensor else np.conj(tree)


def _check_result(name: str, out) -> None:
    if type(out) is not ComplexTensor and not is_complex_number(out):
        raise TypeError(
            f"tapegrad.{name}: with holomorphic=True the function must return a complex result; "
            f"it returned {type(out).__name__}"
        )


def _check_arguments(name: str, args, argnums) -> None:
    numbers = [argnums] if isinstance(argnums, (int, np.integer)) else argnums
    for number in numbers:
        if -len(args) <= number < len(args) and not holds_complex(args[number]):
            raise TypeError(
                f"tapegrad.{name}: with holomorphic=True the arguments must be complex; argument "
                f"{number} is real: convert it with z = x + 0j"
            )


def holomorphic_value_and_grad(name: str, with_gradient, f, argnums, has_aux):
    """The value and f′ of a holomorphic f: the conjugate of the gradient of its real part."""

    def split(*args, **kwargs):
        out = f(*args, **kwargs)
        out, *aux = out if has_aux else (out,)
        _check_result(name, out)
        return PUBLIC["real"](out), (out, *aux)

    both = with_gradient(name, split, argnums, True)

    def evaluate(*args, **kwargs):
        _check_arguments(name, args, argnums)
        (_, (value, *aux)), gradient = both(*args, **kwargs)
        return ((value, *aux) if has_aux else value), conjugated(gradient)

    return evaluate
