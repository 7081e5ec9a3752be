"""What stands for names of NumPy, SciPy, `math` and Numba, and for questions about types."""

from __future__ import annotations

import cmath
import functools
import importlib
import itertools
import math
import operator
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.config import config
from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.conversions import OPAQUE
from .._core.tensor.plain_data import (
    ambiguous,
    as_kind,
    class_of,
    number_of,
    plain_samples,
    possible_kinds,
)
from .._core.tensor.pytree import module_of_class, outer, tree_leaves
from .._core.tensor.trace import DerivativeLost, learned, steered
from .._core.tensor.values import (
    imag_part,
    is_recorded,
    is_tensor,
    joined_parts,
    real_part,
    value_of,
    wrap,
)

# --- numba functions ------------------------------------------------------------------------------
# Functions compiled by Numba, in entered code: the Python functions that they were made of.
#
# Their results are compared with those of the compiled function: its integers wrap, and its error
# model may differ.

_made: weakref.WeakKeyDictionary[Any, Compared] = weakref.WeakKeyDictionary()
_TENSORS = rt.Tensor, rt.ComplexTensor
#: The relative difference of results that is rounding, by the size of their numbers in bytes.
_RTOL, _ATOL = {2: 1e-1, 4: 1e-3}, 1e-12


def is_compiled(one) -> bool:
    """Whether an object is a function that `numba.njit` or `numba.vectorize` has made."""
    kind = type(one)
    owner = module_of_class(kind)
    if not owner.startswith("numba.") or owner.startswith("numba.cuda."):
        return False
    if kind.__name__ in ("DUFunc", "CFunc"):
        return True
    function = getattr(one, "py_func", None)
    return function is not None and "__name__" in function.__globals__  # no text of Numba's own


def python_function(compiled) -> types.FunctionType:
    """The user's Python function that was compiled."""
    if type(compiled).__name__ == "CFunc":
        return compiled._pyfunc
    return getattr(compiled, "_dispatcher", compiled).py_func


def is_vectorized(compiled) -> bool:
    """Whether it is a function that `numba.vectorize` has made."""
    return type(compiled).__name__ == "DUFunc"


def followed(f) -> Any:
    """The Python function of one that is compiled by Numba, where functions are entered."""
    return checked(f).followed if config.enter and is_compiled(f) else f


def _compiling(compiled: weakref.ref) -> Callable:
    def compile_for_args(*args, **kwargs):
        dispatcher: Any = compiled()
        leaves = tree_leaves((args, kwargs)) if rt.in_transform() else ()
        if any([isinstance(one, _TENSORS) for _, one in leaves]):
            return checked(dispatcher)
        return type(dispatcher)._compile_for_args(dispatcher, *args, **kwargs)

    return compile_for_args


def refused_by_numba(error: BaseException) -> bool:
    """Whether an error is Numba's about the type of tensors."""
    return (type(error).__module__ or "").startswith("numba.") and OPAQUE in str(error)


def called(f: Callable) -> Callable:
    """What is called in place of a function; others than those of Numba's as they are."""
    if not config.enter:
        return f
    if type(f) is functools.partial and is_compiled(f.func):
        given, function = f, checked(f.func)

        def of_partial(*args, **kwargs):
            return function(*given.args, *args, **{**given.keywords, **kwargs})

        return of_partial
    return checked(f) if is_compiled(f) else f


def _vectorized_function(function: types.FunctionType) -> Callable:
    """A function of numbers for arrays: one operation, or if it has loops number by number."""
    try:
        return importlib.import_module("tapegrad").elementwise(function)
    except TypeError:
        return importlib.import_module("tapegrad.numpy").vectorize(function, otypes=[float])


def checked(compiled) -> Compared:
    """What is called in place of a compiled function.

    Where the function itself is called, as of a dict or a class, Numba asks it to compile for the
    type of tensors, and calls what that gives.
    """
    if compiled not in _made:
        _made[compiled] = Compared(compiled)
        if hasattr(compiled, "_compile_for_args"):
            compiled._compile_for_args = _compiling(weakref.ref(compiled))
    return _made[compiled]


class Compared:
    """The Python function of one that is compiled: a copy, so that Numba's stays as it is.

    Results are compared with those of the compiled function at the first call, the second, the
    fourth and so on, and when a name of its code has got another value: Numba keeps the first one.
    They are at each call if integers may overflow, or if the code has arrays of its own, of which
    Numba keeps the values.
    """

    def __init__(self, compiled):
        theirs = python_function(compiled)
        own = types.FunctionType(
            theirs.__code__,
            theirs.__globals__,
            theirs.__name__,
            theirs.__defaults__,
            theirs.__closure__,
        )
        functools.update_wrapper(own, theirs)
        own.__kwdefaults__ = theirs.__kwdefaults__
        del own.__wrapped__
        #: The copy.
        self.function = own
        self._compiled, self._calls, self._next = weakref.ref(compiled), 0, 1
        self._names = [name for name in theirs.__code__.co_names if name in theirs.__globals__]
        self._values: list = []
        self._is_doubtful = self._has_differed = False
        self._is_vectorized = is_vectorized(compiled)
        self._called = _vectorized_function(own) if self._is_vectorized else own
        functools.update_wrapper(self, own)

    def __call__(self, *args, **kwargs):
        compiled, self._calls = self._compiled(), self._calls + 1
        is_plain = self._is_vectorized and not any(map(is_tensor, args))
        if compiled is not None and (is_plain or not rt.in_transform()):
            return compiled(*args, **kwargs)  # the latter as in a partial that was kept
        values = self._outside()
        is_known = self._calls < self._next and _same(values, self._values)
        if compiled is None or (is_known and not self._is_doubtful):
            return self._run(args, kwargs)
        plain = _plain_tree((args, kwargs))
        found = self._run(args, kwargs)
        self._compare((found, args, kwargs), compiled, *plain)
        if not is_known:
            self._values, self._next = values, 2 * self._calls
            has_arrays = any([isinstance(one, np.ndarray) for one in values])
            self._is_doubtful = has_arrays or may_overflow(compiled)
        return found

    @property
    def followed(self) -> Callable:
        """What graphs follow, and programs call, in place of the compiled function.

        Where a result has differed it is this object, which compares them.
        """
        return self if self._has_differed else self._called

    def __reduce__(self):
        return checked, (self._compiled(),)

    def _outside(self) -> list:
        """What the names of globals and of variables around the function stand for."""
        space, cells = self.function.__globals__, self.function.__closure__ or ()
        return [*map(space.get, self._names), *[one.cell_contents for one in cells]]

    def _run(self, args: tuple, kwargs: dict):
        """Call the Python function; data are tensors, so that recorded values can be put in copies.

        A recorded value that is put in the data themselves would be lost to the caller.
        """
        given = [*map(_handed, args)]
        named = {name: _handed(value) for name, value in kwargs.items()}
        found = self._called(*given, **named)
        pairs = zip((*given, *named.values()), (*args, *kwargs.values()), strict=True)
        data = [(one, other) for one, other in pairs if one is not other]
        if any([is_recorded(one) for one, _ in data]):
            raise DerivativeLost(
                f"tapegrad: {self.function.__name__}(), compiled by Numba, writes recorded values "
                "to a plain array that it was given, so that their derivative would be lost: make "
                "the array in a function that is differentiated"
            )
        return _given_back(found, [array for _, array in data]) if data else found

    def _compare(self, ours: tuple, compiled, args, kwargs) -> None:
        """Compare results, and arrays that the function may have written to."""
        wanted = compiled(*args, **kwargs)
        theirs = _numbers((wanted, args, kwargs))
        for one, other in itertools.zip_longest(_numbers(_plain_tree(ours)), theirs):
            if not _agree(one, other, self._is_vectorized):
                self._has_differed = True
                raise ValueError(
                    f"tapegrad: {self.function.__name__}() gives {other!r:.60} compiled by Numba, "
                    f"and {one!r:.60} in Python, which is differentiated: Numba's integers "
                    "overflow, it keeps the globals and arrays of its first call, has random "
                    "numbers of its own, and converts to the types of signatures"
                )


def may_overflow(compiled) -> bool:
    """Whether integers of a compiled function may leave the range of their type.

    These are products, powers and shifts, sums other than with constants, and types of less than 64
    bits or without a sign. Of code from Numba's cache it is not known.
    """
    found = getattr(compiled, "_dispatcher", compiled)
    made = [one.type_annotation for one in getattr(found, "overloads", {}).values()]
    return any([not hasattr(one, "calltypes") or _overflows(one) for one in made])


def _overflows(annotation) -> bool:
    kinds = [getattr(kind, "dtype", kind) for kind in annotation.typemap.values()]
    if any([_is_integer(kind) and not (kind.bitwidth == 64 and kind.signed) for kind in kinds]):
        return True
    for step, signature in annotation.calltypes.items():
        if getattr(step, "op", None) in ("binop", "inplace_binop"):
            name = (step.immutable_fn if step.op[0] == "i" else step.fn).__name__
            given = [annotation.typemap[one.name] for one in (step.lhs, step.rhs)]
            is_constant = any([hasattr(kind, "literal_value") for kind in given])
            if name in ("mul", "pow", "lshift") or (name in ("add", "sub") and not is_constant):
                if _is_integer(signature.return_type):
                    return True
    return False


def _is_integer(kind) -> bool:
    """Whether a type of Numba's is one of its integers, literals and truth values apart."""
    return type(kind).__name__ == "Integer"


def _same(values: list, others: list) -> bool:
    return len(values) == len(others) and all(map(operator.is_, values, others))


def _handed(value):
    """What the Python function gets in place of an argument."""
    if type(value) is np.ndarray and value.dtype.char in "df":
        return wrap(value)
    return value


def _given_back(found, arrays: list[np.ndarray]):
    """A result, in which parts of given arrays are arrays."""
    if type(found) in (tuple, list):
        return type(found)([_given_back(one, arrays) for one in found])
    if type(found) is rt.Array and not is_recorded(found):
        value = value_of(found)
        return value if any([np.may_share_memory(value, one) for one in arrays]) else found
    return found


def _numbers(tree) -> list:
    """The numbers and arrays among results and arguments."""
    return [one for _, one in tree_leaves(tree) if isinstance(one, _COMPARED)]


_COMPARED = (bool, int, float, complex, np.generic, np.ndarray)


def _agree(one, other, any_kind: bool = False) -> bool:
    """Whether values are equal up to rounding, and, by default, no float stands for an integer."""
    if type(one) is type(other) is float and one == other:
        return True
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind not in "biufc":
        return one.dtype.kind == other.dtype.kind
    is_cut = one.dtype.kind in "fc" and other.dtype.kind not in "fc" and not any_kind
    if one.shape != other.shape or is_cut:
        return False
    size = min([x.dtype.itemsize // (1 + (x.dtype.kind == "c")) for x in (one, other)])
    is_float = other.dtype.kind in "fc" and one.dtype.kind in "fc"
    rtol = _RTOL.get(size, 1e-6) if is_float else 1e-6
    return np.allclose(one, other, rtol, _ATOL, equal_nan=True)


def _plain_tree(tree):
    """Values without their derivatives: copies of arrays, since functions may write to them."""
    if is_tensor(tree):
        value = value_of(tree)
        return np.array(value) if np.ndim(value) else float(value)
    if isinstance(tree, np.ndarray):
        return np.array(tree)
    if isinstance(tree, (List, Dict)):
        return tree.of_numba()
    if isinstance(tree, dict):
        return {key: _plain_tree(value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        made = map(_plain_tree, tree)
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)
    return tree


class List(list):
    """`numba.typed.List` in entered code."""

    @classmethod
    def empty_list(cls, *_, **__):
        return cls()

    def of_numba(self):
        """Numba's own list of the plain items."""
        return _typed("List")([_plain_tree(one) for one in self]) if self else _typed("List")()


class Dict(dict):
    """`numba.typed.Dict` in entered code; the types of keys and values, where they are given."""

    types: tuple | None = None

    @classmethod
    def empty(cls, *args, **kwargs):
        made = cls()
        made.types = (*args, *kwargs.values())[:2]
        return made

    def of_numba(self):
        """Numba's own dict of the plain items."""
        made = _typed("Dict").empty(*self.types) if self.types else _typed("Dict")()
        for key, value in self.items():
            made[key] = _plain_tree(value)
        return made


def _typed(name: str) -> Any:
    return getattr(importlib.import_module("numba.typed"), name)


#: Objects of Numba's that Python calls and that are no Python functions, by their types.
_UNFOLLOWED = {"_Intrinsic": "an intrinsic", "StencilFunc": "a stencil"}


def _without_derivative(unfollowed, *args, **kwargs):
    """Call one of them, if no argument is recorded."""
    kind = type(unfollowed).__name__
    if kind == "StencilFunc" and not any(map(is_tensor, (*args, *kwargs.values()))):
        return unfollowed(*args, **kwargs)
    name = getattr(unfollowed, "__name__", None) or unfollowed.kernel_ir.func_id.func_name
    raise DerivativeLost(
        f"tapegrad: {name}() is {_UNFOLLOWED[kind]} of Numba, which is not run as Python: write it "
        "as a function of numba.njit, or declare its derivative with tg.custom_vjp"
    )


def of_numba(value) -> Any:
    """The stand-in of an object of Numba's; None for others."""
    numba = sys.modules.get("numba")
    if numba is None:
        return None
    if is_compiled(value):
        return checked(value)
    if value is getattr(numba, "prange", None):
        return range
    if type(value).__name__ in _UNFOLLOWED:
        return functools.partial(_without_derivative, value)
    typed = sys.modules.get("numba.typed")
    if typed is not None:
        return {id(typed.List): List, id(typed.Dict): Dict}.get(id(value))
    return None


# --- stand ins ------------------------------------------------------------------------------------
# What stands for names of NumPy, SciPy, `math`, and for questions about types, in entered code.


# --- `complex()` and the functions of `cmath` in entered code: recorded numbers stay recorded -----


def _are_plain(given) -> bool:
    return not any([isinstance(one, _TENSORS) for one in given])


def _parts(one) -> tuple:
    """The real and the imaginary part of a number as it is."""
    if isinstance(one, rt.ComplexTensor):
        return real_part(one), imag_part(one)
    if isinstance(one, rt.Tensor):
        kept = number_of(one)
        return (float(one) if kept is None else kept), 0.0  # an array has its own error
    made = complex(one)
    return made.real, made.imag


def _plain(one) -> complex:
    return complex(*[float(value_of(part)) for part in _parts(one)])


def complex_of_recorded(*given, **named):
    """Python's `complex`; of recorded numbers a recorded one."""
    if len(given) + len(named) > 2 or _are_plain((*given, *named.values())):
        return complex(*given, **named)
    every = [*given, *[named.get(name, 0.0) for name in ("real", "imag")][len(given) :]]
    real, imag = every[0], every[1]
    (a, b), (c, d) = _parts(real), _parts(imag)
    if isinstance(imag, (complex, rt.ComplexTensor)):
        a = a - d
    if isinstance(real, (complex, rt.ComplexTensor)):
        c = b + c
    return joined_parts(a, c)


def _of_python(made):
    """A result whose numbers are Python's."""
    if isinstance(made, rt.ComplexTensor):
        return joined_parts(*map(_of_python, (real_part(made), imag_part(made))))
    kept = number_of(made) if isinstance(made, rt.Tensor) else None
    return made if kept is None else kept


def _checked(theirs: Callable, made, given: tuple):
    """A result that is finite; else what Python's function raises there.

    Programs serve only operands for which it is so again.
    """
    name = f"cmath.{theirs.__name__}()"
    parts = _parts(made)
    if all([math.isfinite(float(value_of(part))) for part in parts]):
        if rt.trace() is not None:
            for part in parts:
                learned(steered(np.isfinite, part), name)
        return _of_python(made)
    for one in given:
        for part in _parts(one):
            learned(part, name)
    theirs(*map(_plain, given))
    return _of_python(made)


def _unary(theirs: Callable, ours: str) -> Callable:
    """A function of one number by an operation."""

    @functools.wraps(theirs)
    def function(z, /):
        if not isinstance(z, _TENSORS):
            return theirs(z)
        return _checked(theirs, PUBLIC[ours](joined_parts(*_parts(z))), (z,))

    return function


def _recorded(theirs: Callable) -> Callable[[Callable], Callable]:
    """A decorator: Python's function of plain numbers, another one of recorded ones."""

    def decorate(ours: Callable) -> Callable:
        @functools.wraps(theirs)
        def function(*given, **named):
            return theirs(*given, **named) if _are_plain(given) else ours(*given, **named)

        return function

    return decorate


@_recorded(cmath.log)
def _log(z, *base):
    found = [PUBLIC["log"](joined_parts(*_parts(one))) for one in (z, *base)]
    return _checked(cmath.log, found[0] / found[1] if base else found[0], (z, *base))


@_recorded(cmath.phase)
def _phase(z):
    real, imag = _parts(z)
    return _of_python(PUBLIC["arctan2"](imag, real))


@_recorded(cmath.polar)
def _polar(z):
    return _of_python(PUBLIC["absolute"](joined_parts(*_parts(z)))), _phase(z)


@_recorded(cmath.rect)
def _rect(r, phi):
    made = joined_parts(r * PUBLIC["cos"](phi), r * PUBLIC["sin"](phi))
    return _checked(cmath.rect, made, (r, phi))


@_recorded(cmath.isclose)
def _isclose(a, b, *, rel_tol=1e-9, abs_tol=0.0):
    off, sizes = abs(a - b), (abs(a), abs(b))
    return bool(off <= abs_tol) or any([bool(off <= rel_tol * size) for size in sizes])


def _truth(theirs: Callable, ours: Callable, of_both: Callable) -> Callable:
    """A function of the parts that answers yes or no."""
    return _recorded(theirs)(lambda z: of_both([bool(ours(part)) for part in _parts(z)]))


_OPERATIONS = {
    **{
        name: name for name in ("exp", "sqrt", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
#: What stands for the functions of `cmath`.
OF_CMATH: dict[Any, Callable] = {
    **{getattr(cmath, name): _unary(getattr(cmath, name), op) for name, op in _OPERATIONS.items()},
    **{cmath.log: _log, cmath.phase: _phase, cmath.polar: _polar, cmath.rect: _rect},
    cmath.isclose: _isclose,
    cmath.isnan: _truth(cmath.isnan, np.isnan, any),
    cmath.isinf: _truth(cmath.isinf, np.isinf, any),
    cmath.isfinite: _truth(cmath.isfinite, np.isfinite, all),
}


# --------------------------------------------------------------------------------------------------
# `type`, `isinstance`, `hasattr`, `float` in entered code: recorded values are as plain ones.


#: Modules of Python's classes of classes.
_ASKING = frozenset(("builtins", "abc", "typing", "types"))


def _is_asked(one) -> bool:
    """Whether the answer for an object is that for its plain value."""
    return issubclass(type(one), _TENSORS) and rt.in_transform()


def type_of_recorded(one, *more, **named):
    """Python's `type`; refused for numbers that may be Python's or NumPy's."""
    if more or named or not issubclass(type(one), _TENSORS):
        return type(one, *more, **named)
    if (found := _class_of(one)) is not None:
        return found
    if not _is_asked(one):
        return type(one)
    found = possible_kinds(one)
    if len(found) > 1:
        raise ambiguous("the type", one)
    return found[0]


def is_instance(one, kinds):
    """Python's `isinstance`; refused where the answer is another one for Python and NumPy.

    What stands for an object of SciPy's names its class, `stands_for`.
    """
    if hasattr(type(one), "stands_for"):
        return isinstance(one, kinds) or issubclass(one.stands_for, kinds)
    if not _is_asked(one) or _reads(kinds):
        return isinstance(one, kinds)
    return _is_of_ours(type(one), kinds) or _agreed(
        "isinstance()", one, lambda plain: isinstance(plain, kinds)
    )


def has_attribute(one, name):
    """Python's `hasattr`; refused where the answer is another one for Python and NumPy."""
    if not _is_asked(one):
        return hasattr(one, name)
    return _agreed("hasattr()", one, lambda plain: hasattr(plain, name))


def _is_of_ours(kind: type, kinds) -> bool:
    """Whether a class of tensors is asked for."""
    if isinstance(kinds, tuple):
        return any([_is_of_ours(kind, each) for each in kinds])
    return isinstance(kinds, type) and issubclass(kinds, _TENSORS) and issubclass(kind, kinds)


def _reads(kinds) -> bool:
    """Whether a class of the user's may read the value of what it is asked for."""
    if isinstance(kinds, tuple):
        return any(map(_reads, kinds))
    check = getattr(type(kinds), "__instancecheck__", None)
    return outer(getattr(check, "__module__", None) or "builtins") not in _ASKING


def _class_of(one) -> type | None:
    """The class of data, of which it is known."""
    return class_of(one) if issubclass(type(one), rt.Tensor) else None


def _agreed(what: str, one, ask):
    known = _class_of(one)
    samples = plain_samples(one) if known is None else [as_kind(one, known)]
    found = [ask(plain) for plain in samples]
    if any([answer is not found[0] for answer in found]):
        raise ambiguous(what, one)
    return found[0]


def float_of_recorded(*given):
    """Python's `float`; a recorded number stays one, with its derivative."""
    if len(given) != 1 or not isinstance(given[0], rt.Tensor):
        return float(*given)
    kept = number_of(given[0])
    return float(given[0]) if kept is None else kept


#: What stands for Python's own functions and classes.
OF_PYTHON = {
    type: type_of_recorded,
    isinstance: is_instance,
    hasattr: has_attribute,
    float: float_of_recorded,
    complex: complex_of_recorded,
}


# --- What stands for the functions and modules of NumPy, SciPy and `math` in entered code ---------


#: Modules with a counterpart of this package, whose names are those of the original.
_NUMPY = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.polynomial")
_OF_SCIPY = (
    "cluster constants differentiate fft integrate interpolate io linalg ndimage optimize signal "
    "sparse spatial special stats cluster.vq optimize.elementwise signal.windows sparse.csgraph "
    "sparse.linalg spatial.distance spatial.transform stats.contingency"
).split()
_SCIPY = ("scipy", *[f"scipy.{name}" for name in _OF_SCIPY])
#: Libraries of which it matters what is called: such functions may call their arguments.
_LOOKED_AT = frozenset(("builtins", "functools", "_functools", "numpy"))
_PAIRED = {*_NUMPY, *_SCIPY, "math"}

#: By the identity of the original: the original, which stays alive, and its stand-in.
_table: dict[int, tuple[Any, Any]] = {
    id(one): (one, ours) for one, ours in (*OF_PYTHON.items(), *OF_CMATH.items())
}


def pair(original, ours) -> None:
    """Let an object have a stand-in."""
    _table[id(original)] = original, ours


def stand_in(value) -> Any:
    """The stand-in of a function, a class or a module; None where the object itself is used."""
    hit = _table.get(id(value))
    if hit is not None and hit[0] is value:
        return hit[1]
    if isinstance(value, types.ModuleType):
        return _module(value)
    if type(value) is np.vectorize:
        return _vectorized(value)
    if is_of_scipys_class(value):
        return _of_instance(value)
    if type(value) is types.BuiltinMethodType and is_of_scipys_class(value.__self__):
        return getattr(_of_instance(value.__self__), value.__name__)  # as `factorized` returns
    owner = _owner(value)
    if owner is None:
        return of_numba(value)
    for module in _modules_of(owner):
        own, name = _names_of(module).get(id(value), (None, ""))
        made = getattr(_module(module), name, value) if own is value else value
        if made is not value:
            _table[id(value)] = value, made
            return made
    return None


def may_count(value) -> bool:
    """Whether code depends on an object beyond its name: not on data, nor on the user's functions.

    What is found for code is kept with these objects, and serves for all others.
    """
    if isinstance(value, types.ModuleType) or stand_in(value) is not None:
        return True
    owner = getattr(value, "__module__", None) if callable(value) else None
    return isinstance(owner, str) and outer(owner) in _LOOKED_AT


def _is_numbas(value) -> bool:
    return isinstance(value, types.ModuleType) and outer(value.__name__) == "numba"


#: By objects of NumPy's `vectorize`, which users make, what stands for them.
_of_users: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _vectorized(value: np.vectorize) -> Any:
    """The stand-in of a function that NumPy calls element by element."""
    if value not in _of_users:
        kind = stand_in(np.vectorize)
        _of_users[value] = made = object.__new__(kind)
        vars(made).update(vars(value))
    return _of_users[value]


#: By packages of SciPy, the file in `tapegrad.scipy` that makes stand-ins of its instances: its
#: function `of_instance` returns that of an object, or None where the object itself is used.
_INSTANCES = {
    "scipy.interpolate": "_interpolate_polynomials",
    "scipy.signal": "_signal_systems",
    "scipy.sparse.linalg": "_sparse_linalg",
    "scipy.spatial": "_spatial_rotations",
    "scipy.stats": "_stats_distributions",
}
#: As `_table`, of the instances that were asked for last, with what the stand-in has been made of.
_of_instances: dict[int, tuple[Any, Any, dict[str, Any]]] = {}


def is_of_scipys_class(value) -> bool:
    """Whether an object is an instance of a class of SciPy, of a kind with stand-ins."""
    return not isinstance(value, type) and _package_of(value) in _INSTANCES


def _package_of(value) -> str:
    """The package of the class of an object, such as "scipy.stats", and of one derived from it."""
    if type(value).__name__ == "SuperLU":  # whose class does not say where it is from
        return "scipy.sparse.linalg"
    return ".".join(module_of_class(value).removeprefix("tapegrad.").split(".", 2)[:2])


def _of_instance(value) -> Any:
    """The stand-in of an object as `scipy.stats.norm`, or one that users make as splines."""
    held = _of_instances.get(id(value))
    if held is None or held[0] is not value or not _has_still(value, held[2]):
        file = importlib.import_module(f"tapegrad.scipy.{_INSTANCES[_package_of(value)]}")
        if len(_of_instances) >= 256:
            _of_instances.clear()
        made = file.of_instance(value)
        state = {**vars(value)} if getattr(type(made), "is_made_of_state", False) else {}
        held = _of_instances[id(value)] = value, made, state
    return held[1]


def _has_still(value, state: dict[str, Any]) -> bool:
    return all([vars(value).get(name) is one for name, one in state.items()])


def made_of(value) -> list[str]:
    """The attributes of an object of SciPy's of which its stand-in has copies."""
    if not is_of_scipys_class(value) or stand_in(value) is None:
        return []
    held = _of_instances.get(id(value))
    return [] if held is None else [*held[2]]


class ModuleView:
    """A module of the user's, or Numba, as it is, but for stand-ins among its attributes."""

    def __init__(self, module: types.ModuleType):
        self._module = module

    def __reduce__(self):
        return _view_of_named, (self._module.__name__,)

    def __getattr__(self, name: str):
        value = getattr(self._module, name)
        made = stand_in(value)
        if made is None and _is_numbas(value):
            return view_of(value)  # as numba.typed
        return value if made is None else made


@functools.lru_cache(maxsize=256)
def view_of(module: types.ModuleType) -> ModuleView:
    """The one view of a module."""
    return ModuleView(module)


def _view_of_named(name: str) -> ModuleView:
    return view_of(importlib.import_module(name))


def imported(name: str, names) -> types.ModuleType | None:
    """What `import name` gives, for one of the modules: the package if no names are imported."""
    if name not in _PAIRED:
        return None
    importlib.import_module(name)
    return sys.modules[name if names else outer(name)]


def _module(module: types.ModuleType) -> types.ModuleType | None:
    name = module.__name__
    if name not in _PAIRED or sys.modules.get(name) is not module:
        return None
    made = importlib.import_module(f"tapegrad.{name}")
    _table[id(module)] = module, made
    return made


def _owner(value) -> str | None:
    """The library that a function or class may belong to."""
    if isinstance(value, np.ufunc):
        return "ufunc"
    if not callable(value):
        kind = module_of_class(value)  # as np.r_ is
        return "numpy" if kind.startswith("numpy.lib.") else None
    owner = getattr(value, "__module__", None)
    package = outer(owner) if isinstance(owner, str) else ""
    return package if package in ("numpy", "scipy", "math") else None


def _modules_of(owner: str) -> list[types.ModuleType]:
    """The modules that may have a function of a library, among those that were imported."""
    names = {"numpy": _NUMPY, "scipy": _SCIPY, "math": ("math",)}.get(
        owner, ("numpy", "scipy.special")
    )
    return [sys.modules[name] for name in names if name in sys.modules]


@functools.lru_cache(maxsize=64)
def _names_of(module: types.ModuleType) -> dict[int, tuple[Any, str]]:
    """The public names in a module, by the identities of the objects, when it is first asked for.

    What tests and others put in the place of a function later is none of these.
    """
    space = vars(module)
    held = [(space.get(name), name) for name in space.get("__all__") or [*space]]
    return {
        id(one): (one, name)
        for one, name in held
        if not name.startswith("_") and not isinstance(one, types.ModuleType)
    }


def is_replaced(module: types.ModuleType, name: str) -> bool:
    """Whether something has been put in the place of a function of a module, as tests do."""
    found = next((one for one, known in _names_of(module).values() if known == name), None)
    return found is not None and vars(module).get(name) is not found


for _early in (np, math):
    _names_of(_early)
