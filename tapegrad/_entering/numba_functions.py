"""Functions compiled by Numba, in entered code: the Python functions that they were made of.

Their results are compared with those of the compiled function: its integers wrap, and its error
model may differ.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.config import config
from .._core.tensor import runtime as rt
from .._core.tensor.lost_derivatives import OPAQUE
from .._core.tensor.pytree import tree_leaves
from .._core.tensor.reachable import module_of_class
from .._core.tensor.trace import DerivativeLost
from .._core.tensor.values import is_recorded, is_tensor, value_of, wrap

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


def _vectorized(function: types.FunctionType) -> Callable:
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
        self._called = _vectorized(own) if self._is_vectorized else own
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
        plain = _plain((args, kwargs))
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
        for one, other in itertools.zip_longest(_numbers(_plain(ours)), theirs):
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


def _plain(tree):
    """Values without their derivatives: copies of arrays, since functions may write to them."""
    if is_tensor(tree):
        value = value_of(tree)
        return np.array(value) if np.ndim(value) else float(value)
    if isinstance(tree, np.ndarray):
        return np.array(tree)
    if isinstance(tree, (List, Dict)):
        return tree.of_numba()
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        made = map(_plain, tree)
        return type(tree)(*made) if hasattr(tree, "_fields") else type(tree)(made)
    return tree


class List(list):
    """`numba.typed.List` in entered code."""

    @classmethod
    def empty_list(cls, *_, **__):
        return cls()

    def of_numba(self):
        """Numba's own list of the plain items."""
        return _typed("List")([_plain(one) for one in self]) if self else _typed("List")()


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
            made[key] = _plain(value)
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
