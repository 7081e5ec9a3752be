"""NumPy functions that take lists with recorded values, or none; notes in their docstrings."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import textwrap
import types
from collections.abc import Callable

import numpy

from .._core.operations.numpy_protocols import COMPARISONS, UNRECORDED
from .._core.tape import native_types
from .._core.tensor import runtime as rt
from .._core.tensor.conversions import PlainAsked
from .._core.tensor.copies import holds_tensor, unlisted
from .._core.tensor.pytree import none_recorded
from .._core.tensor.registry import OF_NUMPY, PUBLIC, STAND_INS, implementation, with_note
from .._core.tensor.trace import lost_derivative

# --- notes ----------------------------------------------------------------------------------------
# Notes in the docstrings of functions, in addition to NumPy's: how they take recorded values.

_CREATES = (
    "Inside a transform (`tg.grad` and others, `tg.compile`, `tg.vmap`) an array of\n"
    "floats is a tensor, to which recorded values can be written."
)
CONVERTS = "Recorded values, also in lists, and floats inside a transform, become a tensor."
SERIES = "Coefficients and points may be recorded."
DRAWS = (
    "Which functions keep the derivative with respect to recorded parameters is listed\n"
    "in `docs/randomness.md`."
)
_NO_DERIVATIVE = "Recorded values are accepted; the result has no derivative."
_WITHOUT = {*" ".join(UNRECORDED.values()).split(), *COMPARISONS}


def of_recorded(found) -> str:
    """How a NumPy function takes recorded values; empty if it takes none."""
    ours, name = implementation(found), getattr(found, "__name__", "")
    if ours is not None:
        names = [name] if PUBLIC.get(name) is ours else PUBLIC.names_of(ours)
        if names:
            return f"Recorded values are accepted, also in lists; see `tapegrad.{names[-1]}`."
    is_without = name in _WITHOUT and getattr(numpy, name, None) is found
    return _NO_DERIVATIVE if is_without else ""


def creates(found) -> str:
    """The note of a NumPy function that creates arrays."""
    return f"{of_recorded(found)}\n{_CREATES}".lstrip()


def refuses(reason: str) -> str:
    """The note of a function that refuses recorded values."""
    return textwrap.fill(f"A recorded argument raises TypeError: {reason}.", 75)


# --- lists ----------------------------------------------------------------------------------------
# NumPy functions that take lists with recorded values, which do not dispatch.
#
# A list with a recorded value makes NumPy ask it for a plain array, which raises `PlainAsked`. Then
# the lists become tensors, and the function is called once more: this time NumPy dispatches. For
# functions that write, or call functions of users, lists become tensors before the only call.

#: The type of functions that dispatch by `__array_function__`.
_DISPATCHED = type(numpy.sum)
#: Functions of sequences of arrays: items become tensors, not the sequence.
_OF_SEQUENCES = frozenset(
    "concatenate concat stack hstack vstack dstack column_stack row_stack block choose select "
    "lexsort multi_dot".split()
)
#: Functions that call a user's function, or write: they are called once. Positions and names of the
#: arguments that may be lists of recorded values.
_ONCE = {
    "apply_along_axis": (2, "arr"),
    "apply_over_axes": (1, "a"),
    "piecewise": (0, "x"),
    "copyto": (1, "src"),
    "put": (2, "v"),
    "place": (2, "vals"),
    "putmask": (2, "values"),
    "put_along_axis": (2, "values"),
    "fill_diagonal": (1, "val"),
    "mask_indices": (0, "n"),
}
#: They print or save their arguments, take no arrays, or only get and set options.
_AS_THEY_ARE = frozenset(
    "array2string array_repr array_str save savez savez_compressed savetxt genfromtxt loadtxt "
    "fromregex format_float_positional format_float_scientific isscalar iterable isdtype "
    "issubdtype promote_types typename show_config show_runtime get_include info test load "
    "get_printoptions set_printoptions seterr geterr seterrcall geterrcall setbufsize getbufsize "
    "binary_repr base_repr datetime_data broadcast_shapes errstate printoptions".split()
)
#: The functions of this package, by the identities of NumPy's, which are never freed.
_made: dict = {}


def finder(space: dict, module: types.ModuleType, makers: dict[str, Callable] | None = None):
    """`__getattr__` of a module of this package with the names of a NumPy module.

    `space` are its globals. What a name stands for is made when it is first read, of what NumPy has
    now. For some names `makers` make it, given the name and what NumPy has.
    """
    theirs = {name: found for name, found in vars(module).items() if not name.startswith("_")}
    theirs.pop("test", None)

    def find(name: str):
        found = theirs.get(name, module)
        if isinstance(found, types.ModuleType):  # NumPy imports some of its own later
            return getattr(module, name)
        if id(found) in _made:
            made = _made[id(found)]
        elif makers and name in makers:
            made = makers[name](name, found)
        else:
            made = _stand_in(found, space["__name__"])
        return space.setdefault(name, made)  # another thread may have been faster

    return find


def _stand_in(found, module: str):
    """The stand-in of a NumPy object: itself if nothing needs to change."""
    if isinstance(found, numpy.ufunc):
        made = _of_operands(found, module)
        for name in dir(found):
            if not name.startswith("_"):
                setattr(made, name, getattr(found, name))
        for name in ("reduce", "accumulate", "reduceat", "outer"):
            setattr(made, name, taking_lists(getattr(found, name), module))
        made.at = _once(found.at, (2, "b"))
        return made
    name = getattr(found, "__name__", "")
    if not inspect.isroutine(found) and type(found) is not _DISPATCHED or name in _AS_THEY_ARE:
        return found
    return _once(found, _ONCE[name]) if name in _ONCE else taking_lists(found, module)


def named_like(made, found, module: str = "tapegrad.numpy", note: str | None = None):
    """Give a function the name, signature and documentation of NumPy's, with a note."""
    functools.update_wrapper(made, found, updated=())
    made.__module__ = module
    made.__doc__ = with_note(made.__doc__, of_recorded(found) if note is None else note)
    STAND_INS[made] = found
    _made[id(found)] = made
    return made


def taking_lists(found, module: str = "tapegrad.numpy"):
    """A NumPy function that takes lists with recorded values."""

    def function(*args, **kwargs):
        try:
            if kwargs:
                return found(*args, **kwargs)
            return found(*args)
        except PlainAsked:
            pass
        return again(found, args, kwargs)

    return named_like(function, found, module)


def _of_operands(found: numpy.ufunc, module: str):
    """As `taking_lists`; faster for one or two operands."""

    others, call = taking_lists(found, module), found

    def start() -> None:
        nonlocal call
        call = native_types.calling(found, found)

    def unary(x, /, *args, **kwargs):
        if args or kwargs:
            return others(x, *args, **kwargs)
        try:
            return call(x)
        except PlainAsked:
            pass
        return again(found, (x,), kwargs)

    def binary(x, y, /, *args, **kwargs):
        if args or kwargs:
            return others(x, y, *args, **kwargs)
        try:
            return call(x, y)
        except PlainAsked:
            pass
        return again(found, (x, y), kwargs)

    if found.nin > 2:
        return others
    rt.when_started(start)
    return named_like(unary if found.nin == 1 else binary, found, module)


def again(found, args: tuple, kwargs: dict):
    """Call a function with tensors in place of lists that hold recorded values.

    Where NumPy would dispatch to ours by other arguments, ours is called.
    """
    convert = _items if found.__name__ in _OF_SEQUENCES else as_tensor
    made = [convert(argument) for argument in args]
    named = {key: convert(argument) for key, argument in kwargs.items()}
    before = [*args, *kwargs.values()]
    if any(a is not b for a, b in zip(before, [*made, *named.values()], strict=True)):
        try:
            return found(*made, **named)
        except PlainAsked:
            pass
    if implementation(found) is None:
        raise lost(found.__name__, args, kwargs)
    try:
        return OF_NUMPY[found](*made, **named)
    except PlainAsked:
        raise lost(found.__name__, args, kwargs) from None


def lost(name: str, *arguments) -> TypeError:
    """The error if NumPy's function requires a plain array."""
    return lost_derivative(
        f"tapegrad.numpy.{name}: an argument is recorded, and is taken as a plain array, in which "
        "its derivative would be lost; use other operations on it, or t.detach() if no derivative "
        "is needed",
        arguments,
    )


def as_tensor(argument):
    """A sequence that holds tensors, or an array of objects that are, as a tensor; others as is."""
    if isinstance(argument, (list, tuple)):
        listed = _listed(argument)
        return unlisted(_of_numbers(listed)) if holds_tensor(listed) else argument
    if isinstance(argument, numpy.ndarray):
        if argument.dtype != object:
            return argument
        items = argument.tolist()
        return as_tensor(items) if argument.ndim else items
    is_sequence = isinstance(argument, collections.abc.Sequence)
    if is_sequence and not isinstance(argument, (str, bytes, bytearray, range, memoryview)):
        return as_tensor(list(argument))
    return argument


def _listed(items):
    """Nested sequences as lists, so that tensors in them are found; containers as arrays."""
    return [_part(item) for item in items]


def _part(item):
    if isinstance(item, (list, tuple, range)):
        return _listed(item)
    if isinstance(item, (rt.Tensor, rt.ComplexTensor, numpy.generic, str, bytes)):
        return item
    if not isinstance(item, numpy.ndarray) and hasattr(item, "__array__"):
        return numpy.asarray(item)
    return as_tensor(item)


_NUMBERS = (rt.Tensor, rt.ComplexTensor, int, float, complex, numpy.ndarray, numpy.generic)


def _of_numbers(items):
    """A list of tensors, arrays and numbers; others in it raise TypeError."""
    for item in items:
        if isinstance(item, list):
            _of_numbers(item)
        elif not isinstance(item, _NUMBERS):
            raise TypeError(
                f"tapegrad.numpy: a list holds a recorded value and one of type "
                f"{type(item).__name__}; an array keeps the derivative only if it is of numbers: "
                "convert the other with float() or complex()"
            )
    return items


def _items(argument):
    """A sequence of arrays, those that are lists with recorded values being tensors."""
    if not isinstance(argument, (list, tuple)):
        return as_tensor(argument)
    made = [as_tensor(item) for item in argument]
    return argument if all(a is b for a, b in zip(argument, made, strict=True)) else made


def _once(found, places: tuple[int, str]):
    """A function that is called once only: lists of recorded values at a place become tensors."""
    position, key = places

    def function(*args, **kwargs):
        if len(args) > position and type(args[position]) in (list, tuple):
            args = *args[:position], as_tensor(args[position]), *args[position + 1 :]
        elif type(kwargs.get(key)) in (list, tuple):
            kwargs[key] = as_tensor(kwargs[key])
        try:
            return found(*args, **kwargs)
        except PlainAsked:
            raise lost(found.__name__, args, kwargs) from None

    return named_like(function, found)


# --- refusals -------------------------------------------------------------------------------------
# Names of NumPy that take no recorded values, and the reasons.

#: Name → why it refuses recorded values, and what to use.
REFUSED = {
    "asmatrix": "np.matrix is a subclass of ndarray; use np.atleast_2d and @",
    "bmat": "np.matrix is a subclass of ndarray; use np.block",
    "frombuffer": "it takes the bytes of an object; use np.asarray",
    "frompyfunc": "its results are arrays of objects; use np.vectorize, or a loop",
    "broadcast": "it returns plain numbers; use np.broadcast_arrays",
    "nditer": "it returns views of plain arrays; use np.ndenumerate or indices",
    "nested_iters": "it returns views of plain arrays; use indices",
}


def _refusing(name: str, found):
    """A NumPy function with an error that says why it does not take recorded values."""
    reason = REFUSED[name]

    def function(*args, **kwargs):
        try:
            return found(*args, **kwargs)
        except TypeError as error:
            if not isinstance(error, PlainAsked) and none_recorded((*args, *kwargs.values())):
                raise
            raise lost_derivative(
                f"tapegrad.numpy.{name}: an argument is recorded, so its derivative would be lost: "
                f"{reason}; or t.detach() if no derivative is needed",
                args,
                kwargs,
            ) from None

    return named_like(function, found, note=refuses(reason))


REFUSED_MAKERS = dict.fromkeys(REFUSED, _refusing)
