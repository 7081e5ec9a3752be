"""Functions and classes of SciPy run by copies of their code that call stand-ins.

SciPy's own stay as they are.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import itertools
import operator
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.codegen import process
from .._core.remembered import remembered
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.plain_data import kind_of
from .._core.tensor.pytree import ABSENT, content, none_traced, own_code
from .._core.tensor.registry import into
from .._core.tensor.trace import DerivativeLost, fixed, lost_derivative, steered
from .._core.tensor.values import is_recorded, is_tensor
from .._entering.exchanged_names import LoadedCode, Watched, names_imported, rewritten
from .._entering.stand_ins import imported, pair, stand_in
from ._differentiable import OURS, is_before
from ._tested_code import check_text

# --- copied helpers -------------------------------------------------------------------------------
# What copies of SciPy's code call in place of SciPy's helpers for arrays of any kind.


def namespace(*_, **__):
    """The namespace of any arrays."""
    return importlib.import_module("tapegrad.numpy")


def _apply_where(cond, args, f1, f2=None, /, *, fill_value=None, **_):
    """One function where a condition holds, another or a value elsewhere."""
    args = args if isinstance(args, tuple) else (args,)
    return namespace().where(cond, f1(*args), fill_value if f2 is None else f2(*args))


def _lazywhere(cond, arrays, f, fillvalue=None, f2=None):
    """The same by its name and arguments in SciPy before 1.16."""
    return _apply_where(cond, tuple(arrays), f, f2, fill_value=fillvalue)


def _lazyselect(conditions, choices, arrays, default=0):
    """The first function whose condition holds, a value where none does."""
    out = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = namespace().where(condition, choice(*arrays), out)
    return out


def _promoted(*args, broadcast=False, force_floating=False, xp):
    """Arrays of one type, of floats and of one shape, if that is wanted."""
    kept = [unlisted(one) for one in args if one is not None]
    kept = [one if isinstance(one, (rt.Tensor, int, float)) else np.asarray(one) for one in kept]
    kinds = [getattr(one, "dtype", one) for one in kept]
    kind = np.result_type(*kinds, *([1.0] if force_floating else [])) if kinds else None
    kept = [_of_type(one, kind) for one in kept]
    found = iter(namespace().broadcast_arrays(*kept) if broadcast else kept)
    out = tuple([None if one is None else next(found) for one in args])
    return out[0] if len(out) == 1 else out


def _of_type(one, kind: np.dtype):
    if not hasattr(one, "dtype"):
        return np.asarray(one, kind)
    return one if one.dtype == kind else one.astype(kind)


def _is_numpy(_) -> bool:
    """Whether a namespace is NumPy's: as SciPy's code answers for arrays of NumPy."""
    return True


class _At:
    """An array in which some elements are others: `at(x)[index].set(y)`.

    It is the array itself if that can be written, as SciPy's code relies on; else a copy.
    """

    def __init__(self, x, index=None, /):
        self._x, self._index = x, index

    def __getitem__(self, index):
        return _At(self._x, index)

    def _by(self, change, y, copy=None):
        mask = self._mask()
        if mask is not None and np.ndim(y) == 0:
            return namespace().where(mask, change(self._x, y), self._x)
        can_write = isinstance(self._x, rt.Tensor) and self._x.ndim and self._x.flags.writeable
        made = self._x if can_write and not copy else namespace().array(self._x)
        made[self._index] = change(made[self._index], y)
        return made

    def _mask(self):
        """Where the elements are; None for floats that can be written."""
        index, x = self._index, self._x
        if hasattr(index, "dtype") and index.dtype.kind == "b" and index.shape == x.shape:
            return index
        if is_tensor(index) or x.dtype.kind == "f":
            return None
        mask = np.zeros(x.shape, bool)
        mask[index] = True
        return mask

    def set(self, y, /, copy=None, **_):
        return self._by(lambda _, y: y, y, copy)

    def add(self, y, /, copy=None, **_):
        return self._by(operator.add, y, copy)

    def subtract(self, y, /, copy=None, **_):
        return self._by(operator.sub, y, copy)

    def multiply(self, y, /, copy=None, **_):
        return self._by(operator.mul, y, copy)

    def divide(self, y, /, copy=None, **_):
        return self._by(operator.truediv, y, copy)


def _type(one, *more, **named):
    """Python's `type`: numbers in SciPy's code are NumPy's."""
    known = isinstance(one, rt.Tensor) and not more and not named
    return kind_of(one) if known else type(one, *more, **named)


def _int(*given, **named):
    """Python's `int`, a whole number: its derivative is 0."""
    if len(given) != 1 or named or not isinstance(given[0], rt.Tensor):
        return int(*given, **named)
    return int(fixed(steered(np.trunc, given[0]), "int()"))


#: What stands for Python's functions in SciPy's code, but where they are asked for as classes.
OF_PYTHON = {"type": functools.partial(_type), "int": functools.partial(_int)}
for _name, _ours in (("type", _type), ("int", _int)):
    pair(OF_PYTHON[_name], _ours)
#: What SciPy's code asks of arrays of any kind, by its names there.
OF_ARRAYS = {
    "array_namespace": namespace,
    "apply_where": _apply_where,
    "at": _At,
    "is_numpy": _is_numpy,
    "_lazyselect": _lazyselect,
    "_lazywhere": _lazywhere,
    "xp_promote": _promoted,
}


# --- copied code ----------------------------------------------------------------------------------
# Functions of SciPy run by copies of their code that call stand-ins: SciPy's own stay as they are.
#
# The functions that a copied one calls by name are copied, too, when they are called first; so are
# the methods of some classes, in a subclass, and the functions in tables. In place of compiled
# functions the copies call ours (`stands_for`). Each name here has an expression in
# `tests/scipy/test_scipy_copied.py`, `test_scipy_statistics.py` or `test_scipy_signal_table.py`;
# SciPy's other functions refuse recorded values by name. Functions that iterate until a result is
# close are not among them, since the derivative would be that of their steps.

_BY_MODULE = {
    "integrate": "cumulative_simpson cumulative_trapezoid romb",
    "interpolate": "lagrange pade",
    "optimize": "rosen rosen_der rosen_hess rosen_hess_prod",
    "special": "assoc_laguerre comb diric factorial ivp jvp kvp perm yvp",
    "stats.qmc": "geometric_discrepancy scale",
    "stats": "alexandergovern ansari bartlett bayes_mvs binned_statistic "
    "binned_statistic_2d binned_statistic_dd binomtest boxcox boxcox_llf boxcox_normplot "
    "brunnermunzel chatterjeexi chi2_contingency chisquare circmean circstd circvar "
    "combine_pvalues cramervonmises_2samp cumfreq describe differential_entropy "
    "directional_stats energy_distance entropy epps_singleton_2samp expectile f_oneway "
    "false_discovery_control fligner friedmanchisquare gmean gstd gzscore hmean iqr "
    "jarque_bera kendalltau kruskal ks_1samp ks_2samp kstat kstatvar kstest kurtosis "
    "kurtosistest levene linregress lmoment mannwhitneyu median_abs_deviation median_test "
    "mode moment mood mvsdist normaltest obrientransform page_trend_test pearsonr "
    "percentileofscore pmean pointbiserialr power_divergence ppcc_plot probplot quantile "
    "quantile_test rankdata ranksums relfreq scoreatpercentile sem shapiro siegelslopes "
    "sigmaclip skew skewtest somersd spearmanr spearmanrho theilslopes tiecorrect tmax "
    "tmean tmin trim1 trim_mean trimboth tsem tstd ttest_1samp ttest_ind "
    "ttest_ind_from_stats ttest_rel tvar variation wasserstein_distance weightedtau "
    "wilcoxon yeojohnson yeojohnson_llf yeojohnson_normplot zmap zscore",
    "stats.contingency": "chi2_contingency expected_freq",
    "signal": "abcd_normalize argrelextrema argrelmax argrelmin bessel bilinear_zpk bode butter "
    "buttord cheb1ap cheb1ord cheb2ap cheb2ord cheby1 cheby2 chirp coherence cont2discrete "
    "csd cspline1d_eval cspline2d czt dbode decimate deconvolve dfreqresp dimpulse dlsim "
    "dstep ellip ellipap ellipord envelope filtfilt find_peaks findfreqs firls firwin firwin2 "
    "firwin_2d freqresp freqs freqs_zpk freqz_sos freqz_zpk gammatone gauss_spline group_delay "
    "iircomb iirdesign iirfilter iirnotch iirpeak impulse istft kaiserord lombscargle lp2bp "
    "lp2bp_zpk lp2bs lp2bs_zpk lp2hp_zpk lp2lp lp2lp_zpk minimum_phase normalize "
    "peak_prominences peak_widths periodogram qspline1d qspline1d_eval qspline2d resample "
    "resample_poly savgol_coeffs sawtooth sos2tf sos2zpk sosfilt_zi sosfreqz "
    "spectrogram spline_filter square ss2tf ss2zpk step stft symiirorder1 symiirorder2 tf2sos "
    "tf2ss tf2zpk unique_roots vectorstrength welch wiener zoom_fft zpk2sos zpk2ss zpk2tf",
    "signal.windows": "chebwin dpss general_cosine general_hamming kaiser "
    "kaiser_bessel_derived taylor tukey",
}
#: Those whose code in older versions of SciPy does what recorded values do not.
_SINCE = {
    "1.16.0": "signal.bessel signal.butter signal.cheby1 signal.cheby2 signal.ellip "
    "signal.iirdesign signal.iirfilter signal.sos2zpk signal.tf2sos signal.zpk2sos signal.zpk2tf",
    "1.17.0": "signal.firls",
}
#: Arguments that are plain, since SciPy takes another formula at some of their values.
_PLAIN = {
    "stats.chi2_contingency": "lambda_",
    "stats.contingency.chi2_contingency": "lambda_",
    "stats.power_divergence": "lambda_",
}
#: Where the functions are that are copied when they are called: never solvers, see above.
PLACES = (
    *("scipy.stats.", "scipy.signal.", "scipy.fft._fftlog", "scipy.integrate._quadrature"),
    *("scipy.special._basic", "scipy._lib.", "scipy._external.", "tapegrad.scipy._stats_formulas"),
)
#: By name below `scipy`.
COPIED = [f"{module}.{name}" for module, names in _BY_MODULE.items() for name in names.split()]
_LATER = [name for version, names in _SINCE.items() if is_before(version) for name in names.split()]
COPIED = [name for name in COPIED if name not in _LATER]


#: By names of SciPy, also of methods in classes, our functions in place of those.
OWN: dict[str, Callable] = {}


#: Held while what there is one of is made, by threads that ask first at once. Nothing is imported
#: meanwhile: a module that is imported in another thread may wait for it.
_making = process.lock()


def made_once(make):
    """`functools.cache` that makes one object of the same arguments for all threads, too."""
    held = functools.cache(make)

    @functools.wraps(make)
    def function(*args):
        with _making:
            return held(*args)

    return function


class _Copy:
    """A function of SciPy with the code that calls stand-ins, made when it is called first."""

    def __init__(self, theirs):
        self._theirs = theirs

    def __eq__(self, other) -> bool:
        """SciPy's code asks which function it has been given."""
        return other is self or other is self._theirs

    def __hash__(self) -> int:
        return hash(self._theirs)

    @remembered
    def function(self) -> types.FunctionType:
        """The copy: of SciPy's globals, variables, defaults and attributes, with other code."""
        theirs = self._theirs
        _pair_all((theirs.__module__ or "").split(".")[1])
        if (own := _own_of(theirs)) is not None:
            return own
        check_text(theirs)
        loaded = LoadedCode(own_code(theirs), _resolver(theirs))
        code = rewritten(loaded, Watched()).code
        cells = tuple(map(_cell, theirs.__closure__ or ()))
        made = types.FunctionType(
            code, theirs.__globals__, theirs.__name__, theirs.__defaults__, cells
        )
        named = theirs.__kwdefaults__
        made.__kwdefaults__ = {**named, "xp": namespace()} if named and "xp" in named else named
        made.__dict__.update(theirs.__dict__)
        return made

    def __call__(self, *args, **kwargs):
        given = (*args, *kwargs.values())
        if none_held(given) and not any(map(callable, given)):
            return self._theirs(*args, **kwargs)
        return inside(self.function, *args, **kwargs)


def inside(function, *args, **kwargs):
    """A copy's result: its arrays can be written to as inside of transforms, its numbers kept."""
    if rt.in_transform():
        return function(*args, **kwargs)
    with rt.inside():
        return function(*args, **kwargs)


def _cell(cell: types.CellType) -> types.CellType:
    """A variable of a decorator, which holds a copy in place of the function that it wraps."""
    value = content(cell)
    if isinstance(value, type):
        return types.CellType(CLASSES.get(value, value))
    return types.CellType(_mark(value).func.function) if _is_of_scipy(value) else cell


def _own_of(theirs: types.FunctionType):
    """Our function in place of a function of SciPy, below its decorators."""
    if hasattr(theirs, "__wrapped__"):
        return None
    return OWN.get(theirs.__qualname__)


def _is_of_scipy(value) -> bool:
    if not isinstance(value, types.FunctionType) or id(value) in _replaced:
        return False
    return (value.__module__ or "").startswith(PLACES)


def _resolver(f: types.FunctionType):
    """What loads of names give in the code of a function of SciPy and in the code in it."""

    def resolve(inner: types.CodeType, one) -> Any:
        name = one.argval
        if one.opname == "IMPORT_NAME":
            near, names = f"{f.__globals__['__package__']}.{name}", names_imported(inner, one)
            return imported(name, names) or imported(near, names) or ABSENT
        if one.opname == "LOAD_DEREF":
            return ABSENT
        if name in OF_PYTHON and name not in f.__globals__:
            return OF_PYTHON[name]
        place = f"{(f.__module__ or '').removeprefix('scipy.')}.{name}"
        if place in STANDING:
            return _standing(place)
        found = f.__globals__.get(name, ABSENT)
        return getattr(builtins, name, ABSENT) if found is ABSENT else _mark_of(found)

    return resolve


@made_once
def _standing(place: str) -> Any:
    """What has ours for a place as its stand-in."""
    mark = functools.partial(STANDING[place])
    pair(mark, STANDING[place])
    return mark


@made_once
def _mark(theirs: types.FunctionType) -> Any:
    """What has a copy of a function as its stand-in: the function's own may be one that refuses."""
    ours = _Copy(theirs)
    mark = functools.partial(ours)
    pair(mark, ours)
    return mark


def copy_of(theirs) -> Any:
    """The copy of a function of SciPy's, or of one here that is written as theirs."""
    return _mark(theirs).func


def _mark_of(value) -> Any:
    if isinstance(value, types.ModuleType) and value.__name__.startswith("scipy.stats._"):
        return _marked_module(value)
    if type(value) is dict and any(map(_is_of_scipy, _parts(value))):
        return _table(value)
    return _mark(value) if _is_of_scipy(value) and not _is_by_hand(value) else value


def _is_by_hand(theirs: types.FunctionType) -> bool:
    """Whether we have a function in place of one of SciPy's that is no copy."""
    place = theirs.__module__.removeprefix("scipy.")
    public = f"{place.rpartition('.')[0]}.{theirs.__name__}"
    return f"{place}.{theirs.__name__}" in STANDING or (public in OURS and public not in COPIED)


# --- tables and modules ---------------------------------------------------------------------------


def _parts(table: dict) -> list:
    """What a table and the lists in it hold."""
    every = [one if isinstance(one, list) else [one] for one in table.values()]
    return [*itertools.chain(*every)]


def _table(theirs: dict) -> dict:
    """A table of SciPy's functions, for which one stands that has copies of them."""

    def copied(value):
        if isinstance(value, list):
            return [copied(one) for one in value]
        return copy_of(value) if _is_of_scipy(value) else value

    if stand_in(theirs) is None:
        pair(theirs, {key: copied(value) for key, value in theirs.items()})
    return theirs


#: By classes of SciPy's, those with copies of their methods, and the other way round.
CLASSES: dict[type, type] = {}
MADE: dict[type, type] = {}


def none_held(arguments) -> bool:
    """Whether nothing is recorded in arguments, nor in objects of classes with copies."""
    return none_traced(arguments) and not any(
        [_holds_some(x) for x in arguments if type(x) in MADE]
    )


def _holds_some(one) -> bool:
    held = vars(one).values()
    return any(map(is_tensor, held)) or not none_held(held)


class _Marks(types.ModuleType):
    """A private module of SciPy's whose functions are marks, or the stand-ins of these."""

    def __init__(self, module: types.ModuleType, *, of_stand_ins: bool):
        super().__init__(module.__name__)
        self._found = module, of_stand_ins

    def __getattr__(self, name: str):
        module, of_stand_ins = self._found
        value = _mark_of(getattr(module, name))
        ours = stand_in(value) if of_stand_ins else None
        return value if ours is None else ours


@made_once
def _marked_module(module: types.ModuleType) -> _Marks:
    made = _Marks(module, of_stand_ins=False)
    pair(made, _Marks(module, of_stand_ins=True))
    return made


#: What stands for functions and methods in SciPy's modules, most of them compiled, by their places.
STANDING: dict[str, Callable] = {}


#: A decorator: a function stands for those at places, which SciPy's code calls.
stands_for = into(STANDING)
#: SciPy's, by identity.
_replaced: set[int] = set()
#: Modules with some of them.
_HOLDING = ("stats._stats_py", "stats._continuous_distns", "_lib._array_api", "_lib._util")


@functools.cache
def _pair_all(package: str) -> None:
    """Let them stand for SciPy's, which are in other places in other versions."""
    if package == "stats":
        importlib.import_module("tapegrad.scipy._stats_functions").pair_results()
    for place, ours in STANDING.items():
        module, _, name = place.rpartition(".")
        if module.partition(".")[0] in (package, "special") and module[-1].islower():
            theirs = getattr(importlib.import_module(f"scipy.{module}"), name, None)
            owner = getattr(theirs, "__module__", f"scipy.{module}")  # of ufuncs
            if theirs is not None and owner == f"scipy.{module}":
                pair(theirs, ours)  # not those of other modules, which code of others calls, too
    held = [vars(importlib.import_module(f"scipy.{place}")) for place in _HOLDING]
    for space in (*held, *[vars(one["xpx"]) for one in held if "xpx" in one]):
        for name in space.keys() & OF_ARRAYS.keys():
            pair(space[name], OF_ARRAYS[name])
            _replaced.add(id(space[name]))


# --- functions ------------------------------------------------------------------------------------


def _by_copy(name: str):
    module, _, own = name.rpartition(".")

    def function(*args, **kwargs):
        theirs = getattr(importlib.import_module(f"scipy.{module}"), own)
        if name in _PLAIN:
            given = inspect.signature(theirs).bind(*args, **kwargs).arguments
            if is_recorded(given.get(_PLAIN[name])):
                raise DerivativeLost(
                    f"tapegrad.scipy.{name}: {_PLAIN[name]} is recorded; give a plain number, "
                    "since SciPy takes other formulas at some of its values"
                )
        try:
            return copy_of(theirs)(*args, **kwargs)
        except DerivativeLost as error:
            error.args = (
                f"tapegrad.scipy.{name} has no derivative with these arguments, of which one is "
                f"recorded: {error}",
            )
            raise

    return function


OURS |= {name: _by_copy(name) for name in COPIED}


# --- copied classes -------------------------------------------------------------------------------
# Classes of SciPy whose methods are copies of SciPy's code, and instances of them.
#
# For plain arguments, and an instance that holds plain ones, a method is SciPy's.

#: Methods that draw samples, or compute with code that has no derivative.
REFUSED = {
    "cdf": "it integrates by random points",
    "integrate_box": "it integrates by random points",
    "logcdf": "it integrates by random points",
    "resample": "samples have no derivative",
    "rvs": "samples have no derivative to the parameters; draw those of a standard "
    "distribution with plain parameters, and transform them",
}
#: The modules of SciPy with such methods.
_OF_SAMPLES = ("scipy.stats._multivariate", "scipy.stats._kde")


#: By threads that run a method of SciPy, whose own calls are plain, too.
_running: set[int] = set()


def _dispatched(theirs: types.FunctionType):
    """SciPy's function for plain arguments, of which functions are none, and else a copy."""
    copy = copy_of(theirs)
    is_refused = theirs.__name__ in REFUSED and theirs.__module__ in _OF_SAMPLES

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        thread = threading.get_ident()
        if thread in _running:
            return theirs(*args, **kwargs)
        given = (*args, *kwargs.values())
        if any(map(_is_function, given)) or not none_held(given):
            if is_refused:
                raise _refused(theirs.__qualname__, given)
            return _named(theirs, copy, args, kwargs)
        _running.add(thread)
        try:
            found = theirs(*args, **kwargs)
        finally:
            _running.discard(thread)
        if theirs.__name__ == "__init__":
            vars(args[0]).update({name: converted(one) for name, one in vars(args[0]).items()})
        return converted(found)

    return function


def _named(theirs, copy, args, kwargs):
    """What a copy returns; an error names the method that the user has called."""
    try:
        return inside(copy.function, *args, **kwargs)
    except DerivativeLost as error:
        place = ".".join(["tapegrad", *theirs.__module__.split(".")[:2], ""])
        if not str(error).startswith(place):
            name = f"{place}{theirs.__qualname__}"
            error.args = (f"{name} has no derivative with these arguments: {error}",)
        raise


def _is_function(value) -> bool:
    is_ours = type(value) in MADE or (isinstance(value, type) and value in MADE)
    return callable(value) and not is_ours


def _refused(place: str, given):
    kind, _, name = place.partition(".")
    of = kind.removesuffix("_gen").removesuffix("_frozen")
    return lost_derivative(
        f"tapegrad.scipy.stats.{of}.{name} has no derivative: {REFUSED[name]}", *given
    )


def _member(value):
    """What a class has in place of what SciPy's has; None for all but code."""
    if isinstance(value, types.FunctionType):
        return _dispatched(value)
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(_dispatched(value.__func__))
    if isinstance(value, functools.cached_property):
        return functools.cached_property(_dispatched(value.func))
    if isinstance(value, property):
        parts = (value.fget, value.fset, value.fdel)
        return property(*[part and _dispatched(part) for part in parts], doc=value.__doc__)
    return None


@made_once
def copied_class(theirs: type) -> type:
    """A subclass of one of SciPy's, whose methods take recorded values."""
    bases = [copied_class(one) for one in theirs.__bases__ if one is not object]
    members = {name: _member(value) for name, value in vars(theirs).items()}
    space = {name: one for name, one in members.items() if one is not None}
    space |= {"__doc__": theirs.__doc__, "__module__": theirs.__module__, "__reduce__": _reduced}
    space["is_made_of_state"] = True  # an object for one of SciPy's has its attributes
    space["takes_parameters"] = theirs.__name__.endswith("_gen")  # see `Distribution`
    made = type(theirs)(theirs.__name__, (*bases, theirs), space)
    made.__qualname__ = theirs.__qualname__
    MADE[made] = theirs
    CLASSES[theirs] = made
    return made


@made_once
def copied_result(theirs: type) -> type:
    """A subclass of one of SciPy's, a tuple, whose own methods take recorded values."""
    own = {name: _member(value) for name, value in vars(theirs).items() if name[0] != "_"}
    space = {name: one for name, one in own.items() if one is not None}
    made = type(theirs.__name__, (theirs,), space | {"__module__": theirs.__module__})
    MADE[made] = theirs
    pair(theirs, made)
    return made


@functools.cache
def copied_classes(place: str) -> None:
    """Make those of all classes of a module of SciPy, and let them stand for these."""
    for one in [*vars(importlib.import_module(place)).values()]:
        if isinstance(one, type) and one.__module__ == place:
            pair(one, copied_class(one))


def _reduced(self):
    return _made, (MADE[type(self)], vars(self))


def _made(theirs: type, held: dict[str, Any]):
    made: Any = object.__new__(copied_class(theirs))
    vars(made).update(held)
    return made


def converted(one):
    """An object of SciPy's class as one of ours, with what it holds; others as they are."""
    if type(one) is tuple:
        return tuple(map(converted, one))
    if type(one) not in CLASSES:
        return one
    made = _made(type(one), {name: converted(value) for name, value in vars(one).items()})
    for name, value in vars(one).items():
        if isinstance(value, types.MethodType) and value.__self__ is one:
            vars(made)[name] = getattr(made, value.__name__)
    return made
