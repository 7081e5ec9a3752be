"""`Function`: operations whose forward and backward a user writes in Python.

One row stands for a call. Its results are contiguous in the row's buffer, so that the adjoint
buffer holds the adjoints of all of them when the sweep reaches the row. The row keeps the call
alive (`call.Call`), and the call keeps no recorded tensor: what `ctx` has saved is found by the
row's operands.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .._core.codegen.layout import ARRAY
from .._core.ops import call_rows as _declaration
from .._core.ops.table import TABLE
from .._core.tape.sweeps import dense, laid_like, memory_axes
from .._core.tensor import runtime as rt
from .._core.tensor.copies import view_like
from .._core.tensor.indexing import check_write, set_item
from .._core.tensor.registry import refused
from .._core.tensor.trace import is_steering, refuse, steering_tensor
from .._core.tensor.values import (
    ComplexTensor,
    array_of,
    is_recorded,
    is_tensor,
    scalar_of,
    tell_rows,
    value_of,
    wrap,
)
from .._derivatives.tape_traversal import cast
from ._context import Context
from ._function_calls import (
    FunctionCall,
    Moved,
    Repeated,
    differentiable,
    noting_reads,
    numbers_as_tensors,
    parts_of,
    results_of,
    unrecorded,
)

assert _declaration
FUNCTION = ARRAY + TABLE["function"].code


class Function:
    """The base class of custom operations: define `forward` and `backward`, and call `apply`.

    `forward(ctx, *args)` computes the results; tensors are not recorded meanwhile. Alternatively
    `forward(*args)` computes them, and `setup_context(ctx, inputs, output)` saves what `backward`
    needs. `backward(ctx, *gradients)` gets a gradient for each result and returns one for each
    argument, or None. `jvp(ctx, *tangents)`, if it is defined, gets a tangent for each argument and
    returns one for each result, for forward mode; without it, forward mode differentiates
    `backward`, which is linear in the gradients.

    Notes
    -----
    `@staticmethod` is optional. `tg.autograd.function.Context` describes `ctx`. The derivative can
    itself be differentiated if `backward` computes with tensors, from arguments and results of
    `forward`. What else `forward` keeps in `ctx` has no derivative: then `forward` is called again,
    with slightly other arguments, and an error names what is not the same as before.

    Results are those in a tuple or a list, or one. NumPy arrays and, where the call is recorded,
    numbers of Python become tensors; integers and truths do if no result is a float or an array.
    Other results are returned unchanged.

    Examples
    --------
    >>> import tapegrad as tg
    >>> class Exp(tg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = tg.exp(x)
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         (y,) = ctx.saved_tensors
    ...         return gradient * y
    >>> x = tg.tensor([0.0, 1.0], requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1.        , 2.71828183])
    """

    #: What programs repeat a call by.
    _repeated: ClassVar[Callable] = Repeated
    #: Whether backward differentiates functions of users, inside the transform around it.
    _is_inside: ClassVar[bool] = False

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            f"tapegrad.Function: an instance of {type(self).__name__} was called; call "
            f"{type(self).__name__}.apply(…) of the class"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results; see the class.

        Parameters
        ----------
        *args, **kwargs
            `ctx`, if the class has no `setup_context`, and the arguments of `apply`.

        Returns
        -------
        object
            A tensor, an array, a number, or a tuple or list of them and other objects.
        """
        raise NotImplementedError(
            "tapegrad.Function: the class has no forward; define forward(ctx, …) as a staticmethod"
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what `backward` needs, if `forward` does not take `ctx`; see the class.

        Parameters
        ----------
        ctx : Context
            The context in which values are saved for `backward`.
        inputs : tuple
            The arguments of `forward`.
        output : object
            Its result.

        Returns
        -------
        None
        """
        raise NotImplementedError("tapegrad.Function: setup_context is not defined")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Compute the gradients of the arguments; see the class.

        Parameters
        ----------
        ctx : Context
            What `forward` saved.
        *gradients : Tensor
            A gradient for each result.

        Returns
        -------
        Tensor, None or tuple of them
            A gradient for each argument.
        """
        raise NotImplementedError(
            "tapegrad.Function: the class has no backward, so functions of its results cannot be "
            "differentiated; define backward(ctx, …) as a staticmethod"
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Call `forward` and record the call.

        Parameters
        ----------
        *args, **kwargs
            The arguments of `forward`.

        Returns
        -------
        object
            The results of `forward`, recorded.
        """
        args = _by_position(cls, args, kwargs)
        if any(type(leaf) is ComplexTensor for leaf in args):
            raise refused(cls.__name__, args)
        ctx = Context(tuple([is_recorded(arg) and not is_steering(arg) for arg in args]))
        if rt.trace() is not None and rt.is_recording():
            if not _writes(cls):
                return _traced(cls, ctx, args)
            refuse(f"it calls {cls.__name__}, an autograd.Function that may write to its arguments")
        with rt.outside() as recording:
            out = _forward(cls, ctx, args)
        dirty = _dirty(cls, ctx, args, out)
        return _finished(out, _recorded(cls, ctx, args, results_of(out), dirty, recording))


def _finished(out, results):
    """Results as forward returned them: a tuple, a list or one."""
    if isinstance(out, (tuple, list)):
        return results if isinstance(out, list) else tuple(results)
    return results[0]


def _traced(cls, ctx, args):
    """A call while a program is traced, which will repeat it with other arguments.

    Forward gets arguments that are not recorded, as it does then. One row has all results; those
    without derivative are detached from it.
    """
    with noting_reads(cls.__name__), rt.outside(rt.is_recording()):
        out = _forward(cls, ctx, [unrecorded(arg) for arg in args])
    results = results_of(out)
    if not any(map(is_recorded, args)):
        return _finished(out, _recorded(cls, ctx, args, results, {}, True))
    results = numbers_as_tensors(cls.__name__, results)
    again = cls._repeated(functools.partial(_forward, cls), cls, ctx, args, out)
    if again.reads_more(rt.trace()):
        refuse(f"backward of {cls.__name__} reads a recorded tensor that is not in ctx")
    asides = again.asides_of(results)
    if asides is None:
        refuse(again.unlike(results))
        return _finished(out, _recorded(cls, ctx, args, results, {}, True))
    made, call = _row(cls, ctx, args, results, again.outputs, asides)
    again.place(call, value_of(made))
    rt.trace().repeat(made, again)
    for k, part in zip(again.tensors, call.every_view(value_of(made)), strict=True):
        whole, dtype = view_like(made, part), results[k].dtype
        if k in again.outputs:
            results[k] = scalar_of(cast(whole, dtype))
        else:
            results[k] = steering_tensor(np.array, whole, dtype=dtype)
    return _finished(out, results)


def _recorded(cls, ctx, args, results, dirty, recording):
    """The results of a call, recorded if a derivative may be wanted."""
    if recording and any(ctx.needs_input_grad):
        return _record(cls, ctx, args, numbers_as_tensors(cls.__name__, results), dirty)
    return [_unrecorded(ctx, one, args, dirty) for one in results]


def _unrecorded(ctx, result, args, dirty):
    """A result when nothing is recorded: an argument written in place is returned itself."""
    for number, alias in dirty.items():
        if result is alias:
            if is_recorded(args[number]):
                return _written(args[number], ctx._held[number], alias.copy())
            return args[number]
    return result.detach() if is_tensor(result) and is_recorded(result) else result


def _by_position(cls, args, kwargs) -> tuple:
    """All arguments of a call by position; for `setup_context` with the defaults of forward."""
    whole = cls.setup_context is not Function.setup_context
    if not whole and not kwargs:
        return args
    bound = _signature(cls).bind(*(args if whole else (None, *args)), **kwargs)
    if whole or bound.kwargs:  # an omitted one precedes a named one
        bound.apply_defaults()
    for name in kwargs:
        if name in bound.kwargs:
            raise TypeError(
                f"tapegrad.{cls.__name__}: forward takes {name} by keyword only, which apply does "
                "not pass on; let forward take it by position too"
            )
    return bound.args if whole else bound.args[1:]


@functools.cache
def _signature(cls) -> inspect.Signature:
    return inspect.signature(cls.forward)


@functools.cache
def _writes(cls) -> bool:
    """Whether a Function may write to its arguments: whether it names `mark_dirty`."""
    functions = [getattr(f, "__func__", f) for f in (cls.forward, cls.setup_context)]
    return any("mark_dirty" in f.__code__.co_names for f in functions if hasattr(f, "__code__"))


def _forward(cls, ctx, args):
    """The result of forward.

    A Function that writes to its arguments gets tensors on their memory which are not recorded, and
    the old values are kept; if it raises, they are restored.
    """
    given = list(args)
    if _writes(cls):
        for number, arg in enumerate(args):
            if is_tensor(arg):
                given[number] = wrap(value_of(arg))
                ctx._held[number] = array_of(arg).copy()
    ctx._given = given
    try:
        if cls.setup_context is Function.setup_context:
            out = cls.forward(ctx, *given)
        else:
            out = cls.forward(*given)
            cls.setup_context(ctx, tuple(given), out)
        ctx._returned = parts_of(out)
        return out
    except BaseException:
        _put_back(ctx, args)
        raise


def _put_back(ctx, args) -> None:
    """Restore the values of arguments from before the call."""
    for number, held in ctx._held.items():
        if type(args[number]) is rt.Array and args[number]._array.flags.writeable:
            args[number]._array[...] = held


def _dirty(cls, ctx, args, out) -> dict:
    """The aliases of written arguments, by argument; each may be written."""
    dirty = {}
    try:
        for tensor in ctx._dirty:
            numbers = [k for k, one in enumerate(ctx._given) if one is tensor]
            if not numbers or not any(one is tensor for one in parts_of(out)):
                raise RuntimeError(
                    f"tapegrad.{cls.__name__}: mark_dirty got a tensor that is not both an "
                    "argument and a result of forward; return each argument that is written in "
                    "place"
                )
            check_write(args[numbers[0]])
            dirty[numbers[0]] = tensor
        _check_unmarked(cls, ctx, args, dirty)
    except RuntimeError:
        _put_back(ctx, args)
        raise
    return dirty


def _check_unmarked(cls, ctx, args, dirty) -> None:
    """Refuse a write that the tape does not hear of."""
    for number, held in ctx._held.items():
        if number not in dirty and is_recorded(args[number]):
            if array_of(args[number]).tobytes() != held.tobytes():
                raise RuntimeError(
                    f"tapegrad.{cls.__name__}: forward has written to argument {number}; call "
                    "ctx.mark_dirty with each argument that is written, and return it"
                )


def _record(cls, ctx, args, results, dirty):
    """Append the row of a call; returns its results, recorded."""
    raw = list(results)
    outputs = differentiable(ctx, raw)
    if not outputs:
        return [_unrecorded(ctx, one, args, dirty) for one in results]
    made, call = _row(cls, ctx, args, raw, outputs)
    for k, part in zip(outputs, call.views(value_of(made)), strict=True):
        results[k] = scalar_of(cast(view_like(made, part), raw[k].dtype))
    for number, alias in dirty.items():
        for k in outputs:
            if raw[k] is alias:
                results[k] = _written(args[number], ctx._held[number], results[k])
    ctx._held.clear()
    return [
        one if k in outputs else _unrecorded(ctx, one, args, {}) for k, one in enumerate(results)
    ]


def _row(cls, ctx, args, raw, outputs, asides=()):
    """Append the row of a call, with arrays of results without derivative last; it and the call."""
    buffer, parts = _buffer([*[array_of(raw[k]) for k in outputs], *asides], args)
    call = FunctionCall(cls, ctx, args, raw, outputs)
    operands = ctx._pack(args, raw, outputs)
    if len(operands) > sum(call.recorded):
        refuse(f"ctx of {cls.__name__} holds a recorded tensor that is not an argument of apply")
    made = rt.row(FUNCTION, buffer, call, *operands)
    call.places(buffer, parts)
    if ctx._computed() and not _writes(cls):
        call.moved = Moved(functools.partial(_forward, cls), ctx.needs_input_grad, args)
    if outputs and buffer is array_of(raw[outputs[0]]):
        tell_rows(raw[outputs[0]], made)
    ctx._number = made._id
    return made, call


def _written(argument, held, result):
    """An argument with the result written into it, so that the sweep can undo it."""
    if type(argument) is not rt.Array:
        return result
    argument._array[...] = held
    set_item(argument, ..., result)
    return argument


def _buffer(arrays, args):
    """One array that holds others contiguously, and the part for each of them.

    It has the widest of their dtypes.
    """
    if len(arrays) == 1:
        (array,) = arrays
        ours = array.base is None and array.flags.c_contiguous and array.flags.writeable
        if not ours or any(array is value_of(arg) for arg in args):
            array = np.array(array)
        axes = memory_axes(array)
        return array if axes is None else array.transpose(axes), [array]
    arrays = [dense(array) for array in arrays]
    buffer = np.concatenate([array.ravel(order="K") for array in arrays])
    ends = np.cumsum([array.size for array in arrays])
    return buffer, [
        laid_like(buffer[end - array.size : end], array, 1)[0, ...]
        for array, end in zip(arrays, ends, strict=True)
    ]


class _Refusal(Function):
    """The value of its first argument as one of `causes`, by which it is not differentiated."""

    @staticmethod
    def forward(ctx, value, error, message, *causes):
        ctx.error, ctx.message = error, message
        return value.detach().copy()

    @staticmethod
    def backward(ctx, gradient):
        raise ctx.error(ctx.message)


def _refusing(value, message: str, causes, error=RuntimeError):
    return _Refusal.apply(value, error, message, *causes)


FunctionCall.refusing = staticmethod(_refusing)


def once_differentiable(backward):
    """Decorate a `backward` that is not recorded, so that differentiating it is refused.

    Parameters
    ----------
    backward : callable
        The method.

    Returns
    -------
    callable
        The decorated method.

    Examples
    --------
    >>> import tapegrad as tg
    >>> class Double(tg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2.0 * x
    ...     @staticmethod
    ...     @tg.autograd.function.once_differentiable
    ...     def backward(ctx, gradient):
    ...         return 2.0 * gradient
    >>> x = tg.tensor(1.0, requires_grad=True)
    >>> tg.autograd.grad(Double.apply(x), x)
    (tensor(2.),)
    """

    @functools.wraps(backward)
    def within(ctx, *gradients):
        with rt.outside():
            return backward(ctx, *gradients)

    within.is_once = True  # which the call asks for, see `FunctionCall.pass_back`
    return within
