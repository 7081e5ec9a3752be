"""Registration of functions, with their docstrings and their treatment of complex operands."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import types
from collections.abc import Callable

import numpy as np

from ..ops.table import Pointwise, find, meant_by
from . import runtime as rt
from .callers import KINDS, users_line
from .trace import lost_derivative
from .values import (
    PARTS_OF,
    REAL,
    ComplexTensor,
    combined,
    holds_tensors,
    imag_part,
    is_complex,
    real_part,
)

# --- Docstrings of public functions: entries common to many of them are written here, once --------
# A docstring in the source has a summary, particulars, and examples. Entries of parameters that
# mean the same wherever they occur are added, unless the docstring has its own.


_OPERAND = "array_like", "A tensor, an array, a number, or nested lists of them."
_AXES = "int or tuple of ints", "Axes that are reduced; by default all."
_FLAT = "int", "The axis along which the function works; by default the operand is flattened."
#: Type and description of parameters, by name.
PARAMETERS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("x", "y", "a", "b", "v", "arr", "x1", "x2", "val", "ar1", "ar2"), _OPERAND),
    "xs": ("array_like", "The operands."),
    "a1": ("array_like", "Coefficients of a polynomial, the highest power first; or a `poly1d`."),
    "a2": ("array_like", "Coefficients of the other polynomial, or a `poly1d`."),
    "arrays": ("sequence of array_like", "The operands; tensors and others may be mixed."),
    "tup": ("sequence of array_like", "The operands; tensors and others may be mixed."),
    "assume_unique": ("bool", "Whether the elements of each operand are known to be distinct."),
    "axes": ("sequence of ints", "The axes of the transform; by default the last, or all."),
    "axis": ("int", "The axis along which the function works."),
    "axis1": ("int", "The first axis."),
    "axis2": ("int", "The second axis."),
    "bins": ("int or array_like", "The number of bins, or their edges; as in NumPy."),
    "casting": ('{"no", "equiv", "safe", "same_kind", "unsafe"}', "Which conversions are allowed."),
    "condition": ("array_like of bool", "Where elements are selected."),
    "ddof": ("int", "The divisor is the number of elements minus `ddof`."),
    "density": ("bool", "Whether counts are divided by their total and the sizes of the bins."),
    "dtype": ("dtype", "The dtype in which the result is computed."),
    "hermitian": ("bool", "If true, matrices are symmetric; one triangle is read."),
    "indices": ("array_like of ints", "The indices."),
    "indices_or_sections": ("int or sequence of ints", "The number of parts, or their boundaries."),
    "initial": ("number", "Included in each reduction as an additional element."),
    "k": ("int", "The diagonal: 0 is the main diagonal, positive numbers are above it."),
    "keepdims": ("bool", "Whether the reduced axes stay in the result, with length 1."),
    "kind": ("str", "The algorithm, as in NumPy; recorded elements are sorted stably."),
    "mask": ("array_like of bool", "Where elements are written."),
    "method": ("str", 'How elements are interpolated: "linear", or another method of NumPy.'),
    "n": ("int", "The size of the transform, to which the operand is cut or padded."),
    "norm": ('{"backward", "ortho", "forward"}', "Which transforms are scaled, as in `fft`."),
    "offset": ("int", "The diagonal: 0 is the main diagonal, positive numbers are above it."),
    "ord": ("number or str", "The order of the norm, as in `norm`."),
    "order": ('{"C", "F", "A", "K"}', "The memory order; A means F for operands in order F only."),
    "out": ("Tensor or ndarray", "Where the result is written; a tensor if it is recorded."),
    "overwrite_input": ("bool", "Has no effect: the operand is never overwritten."),
    "p": ("array_like", "Coefficients of a polynomial, the highest power first; or a `poly1d`."),
    "q": ("array_like", "The order of the quantile, one or several; it may be recorded."),
    "range": ("tuple of two numbers", "The outer edges of the bins; by default the extremes."),
    "rcond": ("number", "Singular values of at most `rcond` times the largest count as 0."),
    "s": ("sequence of ints", "The size along each of `axes`; −1 is the size of the operand."),
    "stable": ("bool", "Whether equal elements keep their order; those of tensors always do."),
    "subok": ("bool", "Has no effect: it applies to subclasses of arrays."),
    "UPLO": ('{"L", "U"}', "Which triangle of a matrix is read."),
    "values": ("array_like", "The values, which may be recorded."),
    "weights": ("array_like", "Weights of the elements; they may be recorded."),
    "where": ("array_like of bool", "Elements where it is false are ignored."),
}
_RETURNS = """Tensor, ndarray or number
    A tensor if an operand is one, else what NumPy's function returns."""
_REQUIRED = object()
#: The sections that docstrings have, in numpydoc's order.
_ORDER = ("Parameters", "Returns", "Raises", "Warns", "See Also", "Notes", "Examples")
_HEADING = {title: f"\n\n{title}\n{'-' * len(title)}\n" for title in _ORDER}
_ENTRY = re.compile(r"\n(?=\S)")


#: A docstring of NumPy or SciPy: its signature if it has one, its summary, the rest.
_THEIRS = re.compile(r"(\s*)((?:\w+\([^\n]*(?:\n +[^\n]+)*\n\s*\n)?.+?)(\n\s*\n.*|\s*)", re.DOTALL)


def with_note(text: str | None, note: str) -> str | None:
    """A docstring of NumPy or SciPy with a note after its summary."""
    found = _THEIRS.fullmatch(text or "")
    if found is None or not note:
        return text
    start, summary, rest = found.groups()
    margin = "\n" + start.rpartition("\n")[2]
    return f"{start}{summary}\n{margin}{margin.join(note.splitlines())}{rest}"


def completed(function: Callable, numpy_name: str = "") -> str:
    """The docstring of a function in numpydoc form; `numpy_name` is NumPy's function."""
    return _completed(function, PARAMETERS, _RETURNS, numpy_name)


def sharing(entries: dict[str, tuple[str, str]], returns: str = "") -> Callable:
    """A decorator that adds the entries of parameters which the functions of a module share."""

    def decorate(function: Callable) -> Callable:
        function.__doc__ = _completed(function, entries, returns)
        return function

    return decorate


def _completed(function: Callable, entries: dict, returns: str, numpy_name: str = "") -> str:
    head, sections = _parts(function.__doc__ or "")
    sections["Parameters"] = _parameters(function, sections.get("Parameters", ""), entries)
    sections.setdefault("Returns", returns)
    sections.setdefault("See Also", numpy_name)
    given = [title for title in _ORDER if sections.get(title)]
    return head + "".join([_HEADING[title] + sections[title] for title in given])


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """The text before the sections of a docstring, and the sections by title."""
    if "\n---" not in text:  # not yet without the indentation of the source
        text = text.replace("\n    ", "\n")
    text, sections = text.rstrip(), {}
    if "\n---" in text:
        for title in reversed(_ORDER):
            text, heading, body = text.partition(_HEADING[title])
            if heading:
                sections[title] = body
    return text, sections


def _parameters(function: Callable, given: str, entries: dict) -> str:
    """The entries of all parameters in the order of the signature, those that are given first."""
    own = {}
    for text in _ENTRY.split(given) if given else ():
        for name in text.partition("\n")[0].partition(" :")[0].split(", "):
            own[name.strip("*")] = text
    found, defaults = [], _defaults(function)
    for name, default in defaults.items():
        if name in own:
            if own[name] not in found:
                found.append(own[name])
        elif name in entries:
            optional = "" if default is _REQUIRED else ", optional"
            kind, text = entries[name]
            if entries is PARAMETERS and name == "axis":
                kind, text = _axis(defaults)
            found.append(f"{name} : {kind}{optional}\n    {text}")
    return "\n".join(found)


def _axis(defaults: dict) -> tuple[str, str]:
    """The entry of the parameter `axis`: of reductions, of functions that flatten, of others."""
    if "keepdims" in defaults:
        return _AXES
    return _FLAT if defaults["axis"] is None else PARAMETERS["axis"]


def _defaults(function: Callable) -> dict[str, object]:
    """The defaults of the parameters of a function, in the order of these."""
    if (signature := vars(function).get("__signature__")) is not None:
        empty = inspect.Parameter.empty
        given = signature.parameters.values()
        return {one.name: _REQUIRED if one.default is empty else one.default for one in given}
    function = getattr(function, "__wrapped__", function)
    code, names = function.__code__, function.__code__.co_varnames
    positional, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    given, named = function.__defaults__ or (), function.__kwdefaults__ or {}
    values = [_REQUIRED] * (positional - len(given)) + [*given]
    found = dict(zip(names, values, strict=False))
    stars = iter(names[count:])
    if code.co_flags & inspect.CO_VARARGS:
        found[next(stars)] = _REQUIRED
    found.update([(name, named.get(name, _REQUIRED)) for name in names[positional:count]])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found[next(stars)] = _REQUIRED
    return found


# --- The treatment of complex operands by public functions, by name; others refuse them -----------


#: The treatment of complex operands by a public function, by its public name: called with the
#: function and with its arguments.
OF_COMPLEX: dict[str, Callable] = {}


def seems_complex(args) -> bool:
    """Whether one of some arguments is complex, or a list that holds a complex value."""
    for argument in args:
        if type(argument) not in REAL and is_complex(argument):
            return True
    return False


def taking_complex(name: str, ours):
    """A public function with the treatment of `OF_COMPLEX` if an argument is complex."""

    @functools.wraps(ours)
    def function(*args, **kwargs):
        for argument in args:
            if type(argument) not in REAL and is_complex(argument):
                return called_with_complex(name, ours, args, kwargs)
        if not kwargs:
            return ours(*args)
        for argument in kwargs.values():
            if type(argument) not in REAL and is_complex(argument):
                return called_with_complex(name, ours, args, kwargs)
        return ours(*args, **kwargs)

    return function


def called_with_complex(name: str, ours, args, kwargs):
    """Call a function with complex operands; among constants alone it is NumPy's."""
    if not any(map(holds_tensors, (*args, *kwargs.values()))):
        return ours(*args, **kwargs)
    how = OF_COMPLEX.get(name)
    if how is None:
        raise refused(name, args, kwargs)
    return how(ours, *args, **kwargs)


def refused(name: str, *operands) -> TypeError:
    """The error of a function that takes no complex operands."""
    return lost_derivative(
        f"tapegrad.{name}: an operand is complex, which {name} does not take; use it on the real "
        "and the imaginary part, z.real and z.imag",
        *operands,
    )


def into(table: dict) -> Callable:
    """What makes decorators of names: a function is entered in a table under them."""

    def of_names(*names):
        def enter(function):
            table.update(dict.fromkeys(names, function))
            return function

        return enter

    return of_names


#: A decorator: what public functions of these names do with complex operands.
complex_function = into(OF_COMPLEX)


@functools.cache
def _names_of(ours) -> list[str]:
    return list(inspect.signature(ours).parameters)


@functools.cache
def _repeated_from(ours) -> int | None:
    """The place of the parameter that takes all further positional arguments, or None."""
    kinds = [one.kind for one in inspect.signature(ours).parameters.values()]
    several = inspect.Parameter.VAR_POSITIONAL
    return kinds.index(several) if several in kinds else None


def split(ours, args, kwargs, data: tuple[str, ...]) -> list[tuple]:
    """The arguments with real parts, and with imaginary parts, of those that `data` names.

    Without names that is the first one. A complex argument is split in any case.
    """
    names, repeated = _names_of(ours), _repeated_from(ours)
    data = data or tuple(names[:1])
    found = []
    for part in (real_part, imag_part):
        made = []
        for k, argument in enumerate(args):
            name = names[k if repeated is None else min(k, repeated)] if names else ""
            is_part = argument is not None and (name in data or is_complex(argument))
            made.append(part(argument) if is_part else argument)
        named = {
            k: part(a) if a is not None and (k in data or is_complex(a)) else a
            for k, a in kwargs.items()
        }
        found.append((made, named))
    return found


def by_parts(*data: str):
    """The function of the real parts and of the imaginary parts: it is linear, or moves elements.

    `data` names the arguments that are parts, which is the first unless they are named; others are
    the same for both.
    """

    def how(ours, *args, out=None, dtype=None, **kwargs):
        if dtype is not None:
            kwargs["dtype"] = real_dtype(ours.__name__, dtype)
        first, second = split(ours, args, kwargs, data)
        return written_to(out, combined(ours(*first[0], **first[1]), ours(*second[0], **second[1])))

    return how


def writing_parts(*data: str):
    """As `by_parts`, for a function that writes to its first argument."""

    def how(ours, target, *args, **kwargs):
        if type(target) is not ComplexTensor:
            raise TypeError(
                f"tapegrad.{ours.__name__}: complex values cannot be written to a real tensor or a "
                "plain array; write to a complex tensor, or write z.real"
            )
        for positional, named in split(ours, (target, *args), kwargs, data):
            ours(*positional, **named)

    return how


def real_dtype(name: str, dtype):
    """The dtype of the parts of a requested complex dtype."""
    dtype = np.dtype(dtype)
    if dtype not in PARTS_OF:
        raise TypeError(
            f"tapegrad.{name}: an operand is complex and cannot become {dtype}; use z.real, or "
            "dtype=complex"
        )
    return PARTS_OF[dtype]


def by_products(count: int = 2, first: int = 0, conjugated: bool = False):
    """The function is linear in each of `count` operands, which come after `first` others.

    With `conjugated` it takes the complex conjugate of the first. Sums of products are from +0, as
    NumPy's: no part of them is -0.
    """

    def how(ours, *args, out=None, **kwargs):
        n = len(args) - first if count < 0 else count
        before, operands = args[:first], list(args[first : first + n])
        rest = args[first + n :]
        if len(operands) < n:  # by their names
            names = _names_of(ours)[first + len(operands) : first + n]
            operands += [kwargs.pop(name) for name in names]
        if conjugated:
            operands[0] = conjugate_of(operands[0])
        re, im = _products(lambda *parts: ours(*before, *parts, *rest, **kwargs), [], operands)
        if n > 1:
            re, im = re + 0.0, im + 0.0
        return written_to(out, combined(re, im))

    return how


def _products(function, done: list, operands: list):
    """The real and the imaginary part of a multilinear function; some operands are real parts."""
    if not operands:
        return function(*done), None
    operand, *rest = operands
    if not is_complex(operand):
        return _products(function, [*done, operand], rest)
    a, b = _products(function, [*done, real_part(operand)], rest)
    c, d = _products(function, [*done, imag_part(operand)], rest)
    return (a, c) if b is None else (a - d, b + c)


def conjugate(value):
    """Return the complex conjugate, with memory of its own.

    Returns
    -------
    ComplexTensor
    """
    made = conjugate_of(value)
    return combined(_own(made._re), made._im) if type(made) is ComplexTensor else made


def own_memory(z):
    """A complex value with memory of its own."""
    return combined(_own(z._re), _own(z._im)) if type(z) is ComplexTensor else +z


def _own(part):
    """A part with memory of its own; a number has none that could be written."""
    return part if type(part) is rt.Scalar else +part


def conjugate_of(value):
    """The complex conjugate for reading: it shares the real part of a tensor."""
    if not is_complex(value):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(map(conjugate_of, value))
    return combined(value._re, -value._im) if type(value) is ComplexTensor else np.conj(value)


def alike(ours, *args, **kwargs):
    """The function as it is: written in functions that take complex operands."""
    return ours(*args, **kwargs)


def written_to(out, made):
    """The result, written to `out` where one is given."""
    if out is None:
        return made
    if is_complex(made) and type(out) is not ComplexTensor:
        raise lost_derivative(
            "tapegrad: out=: a complex result cannot be written to a plain NumPy array or to a "
            f"real tensor ({users_line()}); {KINDS['complex write']}",
            made,
        )
    out[...] = made
    return out


# --- Registration of functions: as NumPy's function on a tensor, as a method, as `tg.name` --------
# Some families of functions are imported when one of their functions is first used.


#: NumPy's (or SciPy's) function → ours, for `__array_function__` and `__array_ufunc__`.
OF_NUMPY: dict = {}
#: Modules that are not imported yet, with the public names of their functions.
LATE: dict[str, tuple[str, ...]] = {}


def load_families() -> None:
    """Import the modules of all functions."""
    for module in list(LATE):
        _load(module)


def _load(module: str) -> None:
    importlib.import_module(module)
    LATE.pop(module, None)  # another thread may have been first


def _module_of(name: str) -> str | None:
    """The module of a public function that is not imported yet."""
    return next((module for module, names in list(LATE.items()) if name in names), None)


class Public(dict):
    """Functions by public name; those of late modules are imported when they are asked for."""

    def __missing__(self, name):
        if (module := _module_of(name)) is not None:
            _load(module)
        if not super().__contains__(name):  # another thread may have loaded it meanwhile
            raise KeyError(name)
        return self[name]

    def get(self, name, default=None):
        return self[name] if name in self else default

    def __contains__(self, name) -> bool:
        known = super().__contains__
        return known(name) or _module_of(name) is not None or known(name)

    def __iter__(self):
        load_families()
        return super().__iter__()

    def __len__(self) -> int:
        load_families()
        return super().__len__()

    def keys(self):
        load_families()
        return super().keys()

    def values(self):
        load_families()
        return super().values()

    def items(self):
        load_families()
        return super().items()

    def names_of(self, one) -> list[str]:
        """The names of a function whose module is imported."""
        return [name for name, other in super().items() if other is one]

    def early(self) -> list[str]:
        """The names of functions whose modules are imported already."""
        return list(super().keys())


#: Names at top level.
PUBLIC: Public = Public()
#: Functions of `tapegrad.numpy`, `math` and `scipy` → those that they replace.
STAND_INS: dict = {}
#: Public functions by name, those at top level first; modules of others add theirs.
SPACES: list[dict] = [PUBLIC]


def implementation(theirs):
    """Our function for one of NumPy's, whose module is imported for it; None if there is none.

    Late modules have the names of NumPy's functions.
    """
    found = OF_NUMPY.get(theirs)
    if found is not None:
        return found
    if (module := _module_of(getattr(theirs, "__name__", ""))) is not None:
        _load(module)
    return OF_NUMPY.get(theirs)  # another thread may have loaded it meanwhile


def theirs(function):
    """The function of NumPy, SciPy or `math` that one of ours stands for; any other as it is."""
    if not isinstance(function, types.FunctionType):
        return function
    found = STAND_INS.get(function) or getattr(np, function.__name__, None)
    is_ours = function in STAND_INS or (callable(found) and OF_NUMPY.get(found) is function)
    return found if is_ours else function


def declared_by(function) -> Pointwise | None:
    """The element-wise operation that a function is: of a library, one of ours, a user's."""
    declared = getattr(function, "declaration", None)
    if isinstance(declared, Pointwise):
        return declared
    function = theirs(function)
    if isinstance(function, types.FunctionType):
        op = find(function.__name__)
        if isinstance(op, Pointwise) and PUBLIC.get(op.name) is function:
            return op
    return meant_by(function)


def function(*numpy_functions, method: str | None = None, public: str | None = None, complex=None):
    """Register a function of tensors.

    `numpy_functions` are those that it implements (names in `numpy`, or function objects); with
    `method` it is a method of that name; its public name is its own unless given. `complex` is its
    treatment of complex operands (see above); without it, they are refused.
    """

    def register(ours):
        name = public or ours.__name__
        if complex is not None:
            OF_COMPLEX[name] = complex
        theirs_name = next((f"numpy.{one}" for one in numpy_functions if isinstance(one, str)), "")
        ours.__doc__ = completed(ours, theirs_name)
        ours = taking_complex(name, ours)
        for wanted in numpy_functions:
            theirs = wanted
            if isinstance(wanted, str):
                theirs = np
                for part in wanted.split("."):
                    theirs = getattr(theirs, part, None)
            if theirs is not None:
                OF_NUMPY[theirs] = ours
        if method:
            setattr(rt.Tensor, method, ours)
        PUBLIC[name] = ours
        return ours

    return register
