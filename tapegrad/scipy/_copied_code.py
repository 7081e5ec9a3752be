"""Functions of SciPy run by copies of their code that call stand-ins: SciPy's own stay as they are.

The functions that a copied one calls by name are copied, too, when they are called first. Each name
here has an expression in `tests/test_scipy_copied.py`; SciPy's other functions refuse recorded
values by name. Functions that iterate until a result is close are not among them, since the
derivative would be that of their steps.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import types
from typing import Any

import numpy as np

from .._core.remembered import remembered
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.plain_data import kind_of
from .._core.tensor.refused_derivatives import DerivativeLost
from .._entering.exchanged_names import ABSENT, Loaded, Watched, rewritten
from .._entering.name_uses import names_imported
from .._entering.stand_ins import imported, pair
from ._differentiable import OURS
from ._distribution_formulas import CALLED

_BY_MODULE = {
    "stats": "describe differential_entropy directional_stats entropy gmean gstd gzscore hmean iqr "
    "kstat kstatvar kurtosis kurtosistest lmoment median_abs_deviation moment "
    "obrientransform pmean quantile scoreatpercentile sem skew skewtest theilslopes tmax "
    "tmean tmin trim1 trim_mean trimboth tsem tstd tvar variation zmap "
    "zscore",
}
#: Where the functions are that are copied when they are called: never solvers, see above.
_PLACES = (
    *("scipy.stats.", "scipy._lib.", "scipy._external."),
    "tapegrad.scipy._distribution_formulas",
)
#: By name below `scipy`.
COPIED = [f"{module}.{name}" for module, names in _BY_MODULE.items() for name in names.split()]


class _Copy:
    """A function of SciPy with the code that calls stand-ins, made when it is called first."""

    def __init__(self, theirs):
        self._theirs = theirs

    @remembered
    def function(self) -> types.FunctionType:
        """The copy: of SciPy's globals, variables, defaults and attributes, with other code."""
        _pair_all()
        theirs = self._theirs
        loaded = Loaded(theirs.__code__, _resolver(theirs))
        code = rewritten(loaded, Watched()).code
        cells = tuple(map(_cell, theirs.__closure__ or ()))
        made = types.FunctionType(
            code, theirs.__globals__, theirs.__name__, theirs.__defaults__, cells
        )
        made.__kwdefaults__ = theirs.__kwdefaults__
        made.__dict__.update(theirs.__dict__)
        return made

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def _cell(cell: types.CellType) -> types.CellType:
    """A variable of a decorator, which holds a copy in place of the function that it wraps."""
    try:
        value = cell.cell_contents
    except ValueError:  # it has no value yet
        return cell
    return types.CellType(_mark(value).func.function) if _is_of_scipy(value) else cell


def _is_of_scipy(value) -> bool:
    if not isinstance(value, types.FunctionType) or value.__name__ in _REPLACED:
        return False
    return (value.__module__ or "").startswith(_PLACES)


def _resolver(f: types.FunctionType):
    """What loads of names give in the code of a function of SciPy and in the code in it."""

    def resolve(inner: types.CodeType, one) -> Any:
        name = one.argval
        if one.opname == "IMPORT_NAME":
            return imported(name, names_imported(inner, one)) or ABSENT
        if one.opname == "LOAD_DEREF":
            return ABSENT
        if name == "type" and name not in f.__globals__:
            return _type_of_number
        found = f.__globals__.get(name, ABSENT)
        return getattr(builtins, name, ABSENT) if found is ABSENT else _mark_of(found)

    return resolve


@functools.cache
def _mark(theirs: types.FunctionType) -> Any:
    """What has a copy of a function as its stand-in: the function's own may be one that refuses."""
    ours = _Copy(theirs)
    mark = functools.partial(ours)
    pair(mark, ours)
    return mark


def copy_of(theirs) -> types.FunctionType:
    """The copy of a function of SciPy, or of one here that is written as theirs."""
    return _mark(theirs).func.function


def _mark_of(value) -> Any:
    return _mark(value) if _is_of_scipy(value) else value


# --- namespaces of arrays -------------------------------------------------------------------------


def _namespace(*_, **__):
    """The namespace of any arrays."""
    return importlib.import_module("tapegrad.numpy")


def _apply_where(cond, args, f1, f2=None, /, *, fill_value=None, **_):
    """One function where a condition holds, another or a value elsewhere."""
    np = _namespace()
    args = args if isinstance(args, tuple) else (args,)
    return np.where(cond, f1(*args), fill_value if f2 is None else f2(*args))


def _lazywhere(cond, arrays, f, fillvalue=None, f2=None):
    """The same by its name and arguments in SciPy before 1.16."""
    return _apply_where(cond, tuple(arrays), f, f2, fill_value=fillvalue)


def _lazyselect(conditions, choices, arrays, default=0):
    """The first function whose condition holds, a value where none does."""
    out = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = _namespace().where(condition, choice(*arrays), out)
    return out


def _promoted(*args, broadcast=False, force_floating=False, xp):
    """Arrays of one shape, if that is wanted: NumPy promotes their types in operations."""
    kept = [unlisted(one) for one in args if one is not None]
    if force_floating:
        kept = [one if isinstance(one, rt.Tensor) else 1.0 * np.asarray(one) for one in kept]
    found = iter(_namespace().broadcast_arrays(*kept) if broadcast else kept)
    out = tuple([None if one is None else next(found) for one in args])
    return out[0] if len(out) == 1 else out


def _type(one, *more, **named):
    """Python's `type`: numbers in SciPy's code are NumPy's."""
    known = isinstance(one, rt.Tensor) and not more and not named
    return kind_of(one) if known else type(one, *more, **named)


_type_of_number = functools.partial(_type)
pair(_type_of_number, _type)
#: What SciPy's code asks of arrays of any kind, by its names there.
_OF_ARRAYS = {
    "array_namespace": _namespace,
    "apply_where": _apply_where,
    "_lazyselect": _lazyselect,
    "_lazywhere": _lazywhere,
    "xp_promote": _promoted,
}
#: The same, and functions of SciPy's that are compiled, or made of parts of arrays.
_REPLACED = _OF_ARRAYS | {name: _Copy(ours) for name, ours in CALLED.items()}


@functools.cache
def _pair_all() -> None:
    """Let them stand for SciPy's, which are in other places in other versions."""
    for file in ("stats._stats_py", "stats._continuous_distns", "special._ufuncs"):
        held = vars(importlib.import_module(f"scipy.{file}"))
        every = {**vars(held["xpx"]), **held} if "xpx" in held else held
        for name in every.keys() & _REPLACED.keys():
            pair(every[name], _REPLACED[name])


# --- functions ------------------------------------------------------------------------------------


def _by_copy(name: str):
    module, _, own = name.rpartition(".")

    def function(*args, **kwargs):
        theirs = getattr(importlib.import_module(f"scipy.{module}"), own)
        try:
            return _mark(theirs).func(*args, **kwargs)
        except DerivativeLost as error:
            error.args = (
                f"tapegrad.scipy.{name} has no derivative with these arguments, of which one is "
                f"recorded: {error}",
            )
            raise

    return function


OURS |= {name: _by_copy(name) for name in COPIED}
