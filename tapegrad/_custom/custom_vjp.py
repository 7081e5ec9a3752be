"""`custom_vjp`, operations on arrays with value and adjoint compiled by the user."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.codegen import process
from .._core.codegen.factory import once_for_each
from .._core.codegen.layout import ARRAY, CALL_BYTES, CALL_DATA, CALL_SHAPE, CALL_TARGET
from .._core.codegen.process import Later
from .._core.ops import call_rows
from .._core.ops.table import MOST_CODES, declare, declaring, users_name
from .._core.tape import store
from .._core.tensor import runtime as rt
from .._core.tensor.copies import copy_tensor, in_dtype, link, unlisted, view_like
from .._core.tensor.registry import refused
from .._core.tensor.trace import CustomCall, is_steering, refuse, steered, steering_tensor
from .._core.tensor.values import (
    FLOATS,
    is_complex,
    is_recorded,
    is_tensor,
    records,
    scalar_of,
    value_of,
    wrap,
)
from .._derivatives.recorded_reverse import BY_HAND
from .._derivatives.tape_traversal import seen_as

# --- A call of an operation of `custom_vjp`, as programs repeat it with other operands ------------


_bridge = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class VjpCall(CustomCall):
    """The call of an operation: `arguments` as they were, `recorded` those that programs replace.

    `wanted` says which of all arguments have adjoints; `bridge` is the address of the function that
    computes them.
    """

    def __init__(self, operation, arguments: list, recorded, wanted, given, bridge: int):
        self.operation, self.name = operation, f"{operation.__name__} of tg.custom_vjp"
        self.arguments, self.recorded, self.wanted = arguments, recorded, wanted
        self.form, self.bridge = operation.form(given), bridge

    def value(self, operands: list[np.ndarray]) -> tuple[np.ndarray | None, Any]:
        given = iter(operands)
        pairs = zip(self.arguments, self.recorded, strict=True)
        arguments = [_like(x, next(given)) if one else x for x, one in pairs]
        returned = self.operation.forward(*arguments)
        if self.operation.form(returned) != self.form:
            return None, None
        outputs = [np.array(y, order="C") for y in self.operation.outputs(returned)]
        whole = outputs[0] if len(outputs) == 1 else np.concatenate([y.ravel() for y in outputs])
        return whole, (arguments, outputs)

    def adjoints(self, held: Any, g: np.ndarray) -> list[np.ndarray | None]:
        arguments, outputs = ([np.asarray(x) for x in one] for one in held)
        ends = np.cumsum([y.size for y in outputs])
        parts = [np.ravel(g)[end - y.size : end] for y, end in zip(outputs, ends, strict=True)]
        targets = [
            np.zeros(x.shape, x.dtype) if wanted else None
            for x, wanted in zip(arguments, self.wanted, strict=True)
        ]
        entries = np.zeros((len(arguments) + len(outputs), CALL_BYTES // 8), np.int64)
        shapes = [np.array(x.shape, np.int64) for x in (*arguments, *outputs)]
        items = zip(entries, (*arguments, *outputs), (*targets, *parts), shapes, strict=True)
        for entry, x, target, shape in items:
            entry[CALL_DATA // 8], entry[CALL_SHAPE // 8] = x.ctypes.data, shape.ctypes.data
            entry[CALL_TARGET // 8] = 0 if target is None else target.ctypes.data
        answer = _bridge(self.bridge)(entries.ctypes.data)
        if answer:
            raise self.operation.refusal(answer)
        return [one for one, recorded in zip(targets, self.recorded, strict=True) if recorded]


def _like(before, operand: np.ndarray):
    """An operand as `forward` gets it: an array, or a number of the kind that it was."""
    return operand if isinstance(before, np.ndarray) else type(before)(operand)


# --- `custom_vjp`, operations on arrays with value and adjoint compiled by the user ---------------


_lock = process.lock()
_NUMBER = (np.dtype(np.float64), 0)

#: What is compiled by Numba, which is imported with the first of it.
njit_adjoints: Any = Later("tapegrad._core.codegen.njit_adjoints")
#: A number or an array as such a function gets it: dtype and number of axes.
Kind = tuple[np.dtype, int]


class CustomVjp:
    """An operation on arrays made by `tg.custom_vjp`; without `backward` it has no derivative."""

    forward: Callable[..., Any]
    backward: Callable[..., Any] | None
    op: Any
    __name__: str

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any] | None, op: Any):
        self.forward, self.backward, self.op = forward, backward, op
        self.__name__ = self.__qualname__ = forward.__name__
        self.__doc__ = forward.__doc__
        self._bridges: dict = {}

    def __repr__(self) -> str:
        return f"<tapegrad operation {self.__name__} with its own adjoint>"

    def __reduce__(self) -> tuple[Any, ...]:
        return custom_vjp, (self.forward, self.backward)

    def __call__(self, *operands: Any) -> Any:
        items = [self._operand(k, unlisted(x)) for k, x in enumerate(operands)]
        values = [_argument(item) for item in items]
        try:
            given = self.forward(*values)
        except Exception as error:  # which the caller may catch, and take another way
            refuse(f"{self.__name__} raises {type(error).__name__}")
            raise
        outputs = self.outputs(given)
        if records(*items):
            made = self._record(items, values, given, outputs)
        else:
            plain = not any(map(is_tensor, operands))
            made = [_number(y) if plain else wrap(y) for y in outputs]
        return tuple(made) if isinstance(given, tuple) else made[0]

    # --- operands and outputs -----------------------------------------------------------------

    def _operand(self, k: int, x):
        """An operand as it is recorded: a contiguous array, or a number."""
        if is_complex(x):
            raise refused(self.__name__, x)
        value = value_of(x)
        if isinstance(value, (bool, np.bool_, int, np.integer)):
            return int(value)
        if np.ndim(value) == 0 and is_recorded(x) and is_steering(x):
            return steered(np.asarray, x, dtype=np.int64 if value.dtype.kind in "biu" else float)
        if not isinstance(value, (float, np.floating, np.ndarray)):
            raise TypeError(
                f"tapegrad.{self.__name__}: operand {k} has type {type(value).__name__}; it must "
                "be a tensor, an array or a number"
            )
        if np.ndim(value) == 0:
            return scalar_of(in_dtype(x, np.float64)) if is_recorded(x) else float(value)
        if is_recorded(x):
            return x if x._array.flags.c_contiguous else copy_tensor(x)
        return np.array(value, order="C")  # a copy, since the caller may write to it

    @staticmethod
    def form(given: Any) -> tuple[Any, ...]:
        """What is the same in every call that a program repeats: tuple or not, shapes, dtypes."""
        is_tuple = isinstance(given, tuple)
        every = [np.asarray(y) for y in (given if is_tuple else (given,))]
        return is_tuple, *[(y.shape, y.dtype) for y in every]

    def outputs(self, given: Any) -> list[np.ndarray]:
        """The results of forward, as arrays of one dtype."""
        found = [np.asarray(y) for y in (given if isinstance(given, tuple) else (given,))]
        dtypes = {y.dtype for y in found}
        if len(dtypes) != 1 or not dtypes <= set(FLOATS):
            names = ", ".join(str(y.dtype) for y in found)
            raise TypeError(
                f"tapegrad.{self.__name__}: forward returned {names}; it must return float64 or "
                "float32, the same for all outputs"
            )
        return found

    # --- recording ----------------------------------------------------------------------------

    def _record(self, items, values, given, outputs):
        """One row; several outputs are contiguous in its array."""
        operands = [_kind(v) for v in values]
        recorded = tuple(is_recorded(x) and not is_steering(x) for x in items)
        address = self._bridge(operands, tuple(_kind(y) for y in outputs), recorded)
        if len(outputs) == 1:
            whole = _own(outputs[0], values)
            views = [whole]
        else:
            whole = np.concatenate([y.ravel() for y in outputs])
            views = _parts(whole, outputs)
        row = rt.row(ARRAY + self.op.code, whole, *items, *views, len(views), address)
        made = [row] if len(outputs) == 1 else [view_like(row, view) for view in views]
        if (trace := rt.trace()) is not None:
            replaced = [is_recorded(x) for x in items]
            trace.repeat(row, VjpCall(self, values, replaced, recorded, given, address))
            made = made if any(recorded) else [steering_tensor(np.array, one) for one in made]
        return [scalar_of(_laid(*pair)) for pair in zip(made, outputs, strict=True)]

    def _bridge(self, operands, outputs, recorded) -> int:
        """The bridge for operands and outputs of these kinds, compiled at their first use."""
        if self.backward is None:
            return njit_adjoints.no_bridge()
        key = (*operands, None, *outputs, None, *recorded)
        if key not in self._bridges:
            with _lock:
                compiled = _compiled(self.backward)
                found = njit_adjoints.derivatives(compiled, (*outputs, *operands, *outputs))
                wanted = self._wanted(operands, recorded, found)
                self._bridges[key] = njit_adjoints.compile_bridge(
                    compiled, operands, outputs, wanted
                )
        return self._bridges[key]

    def _wanted(self, operands, recorded, found) -> list[bool]:
        """The derivatives that are added to adjoints; errors for those that do not fit."""
        if len(found) != len(operands):
            raise TypeError(
                f"tapegrad.{self.__name__}: backward returned {len(found)} derivatives for "
                f"{len(operands)} operands; return a tuple with one for each, None for zero"
            )
        for k, (kind, returned) in enumerate(zip(operands, found, strict=True)):
            if recorded[k] and returned is not None and not njit_adjoints.fits(returned, kind):
                raise TypeError(
                    f"tapegrad.{self.__name__}: backward returned {returned} for operand {k}, "
                    f"which is {_words(kind)}; return floats of as many axes, or None for zero"
                )
        return [bool(r) and d is not None for r, d in zip(recorded, found, strict=True)]

    def refusal(self, answer: int) -> Exception:
        """The answer of a bridge, in words."""
        name = f"tapegrad.{self.__name__}"
        if answer == njit_adjoints.MISSING:
            return self._without_adjoint()
        if answer == njit_adjoints.RAISED:
            return RuntimeError(
                f"{name}: backward raised an exception inside the reverse sweep; call it with the "
                "same arrays to see which"
            )
        operand, axis = (answer & 0xFF) - 1, answer >> njit_adjoints.AXIS & 0xFF
        return ValueError(
            f"{name}: backward returned for operand {operand} an array of length "
            f"{answer >> njit_adjoints.LENGTH} along axis {axis}, where the operand has another; "
            "return one of the operand's shape"
        )

    # --- derivatives of derivatives -------------------------------------------------------------

    def _without_adjoint(self) -> Exception:
        return NotImplementedError(
            f"tapegrad: a derivative of a derivative through {self.__name__} needs the adjoint "
            "of its backward; give custom_vjp one that is itself made by custom_vjp"
        )

    def rule(self, traversal: Any, number: int, adjoint: Any) -> None:
        """The adjoint as an operation, where it has an adjoint itself.

        In a traced program it need not have one, unless it is differentiated there.
        """
        backward = self.backward
        if not isinstance(backward, CustomVjp):
            if backward is None or rt.trace() is None:
                raise self._without_adjoint()
            backward = _made(backward, None)
        *operands, (_, count), _, (_, whole) = traversal.operands(number)
        operands, shapes = operands[:-count], [shape for _, shape in operands[-count:]]
        base = traversal.base(number)
        views = _parts(base, shapes) if count > 1 else [base]
        adjoints = [scalar_of(seen_as(adjoint, base, view)) for view in views]
        outputs = [scalar_of(view_like(whole, view)) for view in views]
        parts = backward(*adjoints, *[x for _, x in operands], *outputs)
        for (source, tensor), part in zip(operands, _tuple(parts), strict=True):
            if source >= 0:
                traversal.add(source, tensor._array if type(tensor) is rt.Array else None, part)


def _laid(made, output: np.ndarray):
    """A result in C order, as rows have it, in memory as forward has returned it."""
    if output.flags.c_contiguous:
        return made
    out = np.array(output)
    return link(out, [(made, out)])


def _own(output: np.ndarray, values) -> np.ndarray:
    """An output as the array of a row: not shared, in C order."""
    shared = any(isinstance(v, np.ndarray) and np.may_share_memory(output, v) for v in values)
    free = output.flags.c_contiguous and output.flags.writeable and not shared
    return output if free else np.array(output, order="C")


def _parts(whole: np.ndarray, shapes) -> list[np.ndarray]:
    """Views of a flat array that have the shapes of arrays, one after the other."""
    ends = zip(shapes, np.cumsum([y.size for y in shapes]), strict=True)
    return [whole[end - y.size : end].reshape(y.shape) for y, end in ends]


def _argument(item):
    """An operand as `forward` gets it: an array, or a number of Python's."""
    value = value_of(item)
    if np.ndim(value):
        return value
    return int(value) if np.asarray(value).dtype.kind in "biu" else float(value)


def _number(y):
    return y if y.ndim else y[()]


def _tuple(parts) -> tuple:
    return parts if isinstance(parts, tuple) else (parts,)


def _kind(value) -> Kind:
    """The encoding of a value for compiled code."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim
    return (np.dtype(np.int64), 0) if isinstance(value, int) else _NUMBER


def _words(kind: Kind) -> str:
    dtype, ndim = kind
    return f"an array of {dtype} with {ndim} axes" if ndim else "a number"


def _compiled(backward):
    return backward.forward if isinstance(backward, CustomVjp) else backward


def custom_vjp(forward, backward) -> CustomVjp:
    """Make an operation on arrays from two functions compiled with `numba.njit`: value and adjoint.

    Parameters
    ----------
    forward : function compiled with `numba.njit`
        It takes arrays and numbers and returns an array or a number of dtype float64 or float32, or
        a tuple of such results of one dtype. Arguments without axes are passed as numbers.
    backward : function compiled with `numba.njit`, or an operation made by `custom_vjp`
        It takes the adjoint of each output, then the operands, then the outputs, and returns the
        adjoint of each operand, in its shape: a tuple, or the adjoint itself for one operand. None
        stands for zero.

    Returns
    -------
    callable
        The operation, which takes tensors, arrays and numbers.

    Raises
    ------
    TypeError If the functions are not compiled; when called, if their results do not have the right
    types.
    ValueError
        From the reverse sweep, for an adjoint of a wrong shape.

    Notes
    -----
    The functions must not change their arguments. The reverse sweep calls `backward` without Python
    and without the interpreter lock. Second derivatives need the adjoint of `backward`: pass a
    `backward` that is itself made by `custom_vjp`.

    Examples
    --------
    >>> import numba
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> @numba.njit
    ... def total(x):
    ...     s = 0.0
    ...     for v in x:
    ...         s += v * v
    ...     return s
    >>> @numba.njit
    ... def total_adjoint(g, x, s):
    ...     return 2.0 * g * x
    >>> f = tg.custom_vjp(total, total_adjoint)
    >>> tg.grad(f)(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    for what, function in (("forward", forward), ("backward", _compiled(backward))):
        if not njit_adjoints.is_compiled(function):
            raise TypeError(
                f"tapegrad.custom_vjp: {what} is of type {type(function).__name__}; decorate it "
                "with @numba.njit, so that the sweep can call it without Python"
            )
    return _made(forward, backward)


@once_for_each
def _made(forward, backward) -> CustomVjp:
    """The operation of two functions: the same one each time."""
    refusal = functools.partial(_refused, forward, backward)
    with declaring:
        name = users_name(forward.__name__)
        op = declare(lambda code: call_rows.declaration(name, code, refusal))
    if op is None:
        raise RuntimeError(
            f"tapegrad.custom_vjp: {MOST_CODES - 1} operations are declared; declare each once, "
            "outside loops"
        )
    store.enter(op)
    made = CustomVjp(forward, backward, op)
    BY_HAND[name] = made.rule
    return made


def _refused(forward, backward, answer: int) -> Exception:
    return _made(forward, backward).refusal(answer)
