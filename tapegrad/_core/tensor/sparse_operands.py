"""SciPy's sparse matrices as operands of operators, where the other one is a tensor.

They leave an operator to the other operand, as NumPy's protocol of operators has it, if NumPy can
make no array of it but one of no axes, of an object.
"""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np

from .. import PACKAGE

#: What computes them, imported when it is first needed.
_OURS = f"{PACKAGE.name}.scipy._sparse_tensors"
#: The methods of SciPy's classes that are called by operators, or use them.
_OPERATORS = frozenset(
    "__matmul__ __rmatmul__ __mul__ __rmul__ __add__ __radd__ __sub__ __rsub__ __truediv__ "
    "dot".split()
)
#: What of them asks for an array, and leaves the operator to the other operand without one.
_ASKING = frozenset("_matmul_dispatch multiply _multiply_2d_with_broadcasting _divide".split())


def is_sparse(x) -> bool:
    """Whether a value is one of SciPy's sparse matrices, or one of `tapegrad.scipy.sparse`."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and module.issparse(x)


def by_operator(name: str, x, y):
    """An operator, by its name in Python, of a tensor and a sparse matrix, in any order.

    NotImplemented if none of the operands is a sparse matrix.
    """
    if is_sparse(y):
        return importlib.import_module(_OURS).operate(name, x, y, is_reflected=False)
    if is_sparse(x):
        return importlib.import_module(_OURS).operate(name, y, x, is_reflected=True)
    return NotImplemented


def left_by(frame: types.FrameType | None) -> bool:
    """Whether a frame, which asks for an array, is an operator of SciPy's sparse matrices."""
    method = ""
    if frame is None or frame.f_code.co_name not in _ASKING:
        return False
    while frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse."):
        method, frame = frame.f_code.co_name, frame.f_back
    return method in _OPERATORS


def is_scaling(frame: types.FrameType | None) -> bool:
    """Whether a frame is called by the product of a sparse matrix and a number on the right.

    SciPy takes recorded numbers for numbers there, and does not leave the operator to them.
    """
    while frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse."):
        if frame.f_code.co_name == "_mul_scalar":
            return True
        frame = frame.f_back
    return False


def left(tensor) -> np.ndarray:
    """The array of an operand that shall get the operator: it holds the operand itself."""
    made = np.empty((), object)
    made[()] = tensor
    return made
