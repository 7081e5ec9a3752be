"""SciPy's functions of one matrix applied to the matrices of stacks, one after the other."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.values import shape_of
from ._differentiable import is_before

#: Functions of `scipy.linalg` that take stacks since SciPy 1.16.
_STACKED = frozenset(
    "cho_factor cho_solve cholesky coshm cosm eig eigh eigvals eigvalsh expm_frechet "
    "fractional_matrix_power inv logm lstsq lu_factor lu_solve null_space orth "
    "orthogonal_procrustes pinv pinvh polar qr signm sinhm sinm solve solve_banded "
    "solve_continuous_are solve_continuous_lyapunov solve_discrete_are solve_discrete_lyapunov "
    "solve_lyapunov solve_sylvester solve_triangular solveh_banded sqrtm svd svdvals tanhm "
    "tanm".split()
)


def is_of_matrices(name: str) -> bool:
    """Whether a function of the installed SciPy takes no stacks, though that of others does."""
    module, _, function = name.rpartition(".")
    return module == "linalg" and function in _STACKED and is_before("1.16.0")


def holds_stack(arguments) -> bool:
    """Whether arguments, or what is listed in them, are stacks or complex tensors."""
    return any(
        holds_stack(x)
        if isinstance(x, (tuple, list))
        else getattr(x, "ndim", 0) > 2 or isinstance(x, rt.ComplexTensor)
        for x in arguments
    )


def is_stack(x) -> bool:
    """Whether an operand has more axes than a matrix."""
    return len(shape_of(x)) > 2


def of_stacks(name: str, function, *operands):
    """The results of `function` for each matrix of stacks that broadcast, stacked.

    Results of a function with several outputs are a list, as in SciPy.
    """
    shapes = [shape_of(x) for x in operands]
    batch = np.broadcast_shapes(*[shape[:-2] for shape in shapes])
    if 0 in batch:
        raise ValueError(f"`{name}` does not support zero-size batches.")
    wide = [
        PUBLIC["broadcast_to"](x, (*batch, *shape[-2:]))
        for x, shape in zip(operands, shapes, strict=True)
    ]
    found = [function(*[x[at] for x in wide]) for at in np.ndindex(batch)]
    if not isinstance(found[0], tuple):
        return _side_by_side(found, batch)
    return [_side_by_side(results, batch) for results in zip(*found, strict=True)]


def _side_by_side(results, batch):
    if results[0] is None:
        return np.full(batch, None)
    made = PUBLIC["stack"](list(results))
    return PUBLIC["reshape"](made, (*batch, *shape_of(made)[1:]))
