"""Code that takes numbers out of tensors: read from its frames, with the advice of errors."""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import itertools
import math
import os
import pathlib
import sys
import sysconfig
import types
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .. import PACKAGE
from ..codegen import compat
from ..config import config
from .values import CONTAINERS

# --- Installed packages: which of them transforms enter, and why others are left out --------------


_DERIVES = "it differentiates its own arrays"
_ARRAYS = "it computes with arrays of its own"
_NUMBERS = "it computes with numbers or symbols of its own"
_COMPILED = "it hands its arguments to compiled code"
_KEEPS = "it draws, and keeps what it has drawn"
_COMPILES = "it compiles functions"
_RUNS = "it runs functions elsewhere, or keeps their results"
_SERVES = "it serves programs, and has state of its own"
_REASONS = {
    _DERIVES: "aesara autograd casadi chainer chex dm_haiku equinox flax functorch haiku jax "
    "jaxlib keras lightning mxnet mygrad numpyro optax paddle pymc pyro pytensor "
    "pytorch_lightning tensorflow tensorflow_probability theano tinygrad torch torchaudio "
    "torchvision transformers",
    _ARRAYS: "arrow awkward cudf cupy cupyx dask datatable h5py narwhals netCDF4 numexpr pandas "
    "polars pyarrow sparse tables vaex xarray zarr",
    _NUMBERS: "flint gmpy2 mpmath symengine sympy uncertainties",
    _COMPILED: "CoolProp PIL bottleneck catboost cv2 cvxopt cvxpy erfa gekko gurobipy highspy "
    "imageio imblearn lightgbm nlopt osqp pyfftw pyomo pywt rtree shapely skimage sklearn "
    "xgboost",
    _KEEPS: "altair bokeh holoviews ipywidgets manim matplotlib mayavi mpl_toolkits panel plotly "
    "pygame pyqtgraph pyvista seaborn streamlit vispy",
    _COMPILES: "cffi cppyy cython llvmlite mypyc pybind11 pyximport pythran taichi triton warp",
    _RUNS: "billiard celery cachetools cloudpickle dill diskcache distributed fsspec ipyparallel "
    "joblib loky mpi4py multiprocess pathos prefect ray",
    _SERVES: "IPython _pytest absl aiohttp attr attrs boto3 botocore certifi click coverage "
    "django fastapi filelock flask google grpc hydra hypothesis httpx ipykernel jinja2 jupyter "
    "line_profiler loguru mlflow mypy omegaconf optuna pdm pip pkg_resources pluggy psutil "
    "pydantic pydantic_core pyinstrument pytest requests rich ruff setuptools sqlalchemy "
    "starlette structlog tensorboard tornado tqdm traitlets typer urllib3 wandb wheel yaml zmq",
}
#: Packages that are not entered unless a transform names them, and why.
LEFT_OUT = {name: reason for reason, names in _REASONS.items() for name in names.split()}
#: What some transform of this process has named.
_named: set[str] = set()


def outer(module: str) -> str:
    """The package to which a module belongs."""
    return module.partition(".")[0]


@functools.lru_cache(maxsize=1024)
def is_installed(package: str) -> bool:
    """Whether a package lies where installers put packages: it is not being worked on."""
    module = sys.modules.get(package)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    parts = {part for place in places if place for part in pathlib.PurePath(place).parts}
    return not parts.isdisjoint(("site-packages", "dist-packages"))


class Packages:
    """The packages that a transform enters, by its option `enter`.

    None stands for all but those that are left out, () for none; names are added to all.
    """

    __slots__ = ("named",)

    def __init__(self, enter: Iterable[str] | str | None = None):
        is_one = isinstance(enter, str) or not isinstance(enter, Iterable)
        given: Any = (enter,) if is_one else enter
        self.named = None if enter is None else frozenset(map(_package, given))
        _named.update(self.named or ())

    def __contains__(self, package: object) -> bool:
        if not config.enter or self.named == frozenset():
            return False
        return package not in LEFT_OUT or package in (self.named or ())


class _Any:
    """The packages that any transform of this process may enter."""

    def __contains__(self, package: object) -> bool:
        return config.enter and (package not in LEFT_OUT or package in _named)


ANY: _Any = _Any()


def _package(given) -> str:
    if not isinstance(given, str) or not all(map(str.isidentifier, given.split("."))):
        raise TypeError(
            f"tapegrad: enter has {given!r:.60}; it must be a tuple of names of installed "
            "packages, () for none"
        )
    return outer(given)


# --- The public names of SciPy's functions that are running, found by their frames ----------------


#: The functions that have derivatives here, by name below `scipy`; imported when first asked for.
_OURS = f"{PACKAGE.name}.scipy._forwarding"


def has_derivative(name: str) -> bool:
    """Whether `tapegrad.scipy` has a function of this name, such as "special.ndtr"."""
    return importlib.import_module(_OURS).find_ours(name) is not None


def class_with_derivative(name: str) -> str | None:
    """The class among these that a name is of, or whose method it names, as it is below `scipy`."""
    find = importlib.import_module(_OURS).find_ours
    return next((x for x in (name, name.rpartition(".")[0]) if isinstance(find(x), type)), None)


def scipy_name(frames: list[types.FrameType]) -> str | None:
    """The name below `scipy` of what the user has called, of SciPy's frames with it first.

    "optimize.brentq", "stats.gamma.logpdf"; None if nothing public is found.
    """
    modules = _public_modules()
    for frame in frames:
        name = _of_method(frame, modules) or _of_function(frame, modules)
        if name is not None:
            return name
    return None


def name_of_ufunc(ufunc) -> str | None:
    """The name below `scipy` of one of SciPy's ufuncs, None for others."""
    special = sys.modules.get("scipy.special")
    name = ufunc.__name__
    return f"special.{name}" if getattr(special, name, None) is ufunc else None


def _public_modules() -> list[tuple[str, types.ModuleType]]:
    """SciPy's public modules that are imported, those with short names first."""
    found = [
        (name.partition(".")[2], module)
        for name, module in list(sys.modules.items())
        if name.startswith("scipy.") and isinstance(module, types.ModuleType)
        if not any(part.startswith("_") for part in name.split("."))
    ]
    return sorted(found, key=lambda pair: (pair[0].count("."), pair[0]))


def _public_part(module: str) -> str:
    """The public place below `scipy` of a module: "optimize" for "scipy.optimize._zeros_py"."""
    parts = module.split(".")[1:]
    return ".".join(itertools.takewhile(lambda part: not part.startswith("_"), parts))


def _of_function(frame: types.FrameType, modules) -> str | None:
    """The public name of the function that a frame runs, also through decorators."""
    code, held = frame.f_code, [id(value) for value in frame.f_locals.values()]
    defined = _public_part(frame.f_globals.get("__name__", ""))
    # other modules import it, too
    for place, module in sorted(modules, key=lambda pair: pair[0] != defined):
        for name, value in vars(module).items():
            if name.startswith("_") or not isinstance(value, types.FunctionType):
                continue
            inner = getattr(value, "__wrapped__", None)
            if inner is not None and getattr(inner, "__code__", None) is code:
                return f"{place}.{name}"
            # several functions share the code of their decorator, which holds the one it wraps
            if value.__code__ is code and (inner is None or id(inner) in held):
                return f"{place}.{name}"
    return None


def _of_method(frame: types.FrameType, modules) -> str | None:
    """The public name of the method that a frame runs: of an object, as of stats, or of a class."""
    owner, method = frame.f_locals.get("self"), frame.f_code.co_name
    if owner is None or not type(owner).__module__.startswith("scipy."):
        return None
    kinds = [*type(owner).__mro__]
    for wanted in (owner, *kinds):
        for place, module in modules:
            for name, value in vars(module).items():
                if value is wanted and not name.startswith("_"):
                    shown = f"{place}.{name}"
                    return shown if method.startswith("__") else f"{shown}.{method}"
    return None


# --- What works instead where a derivative would be lost: all advice of errors, by kind -----------
# `tests/entering/test_refusal_advice.py` runs what is advised.


IMPORT = "`import tapegrad.numpy as np` in place of `import numpy as np`"
#: The end of each text: the value alone.
ARRAY_ALONE = "t.detach().numpy() if no derivative is needed"
NUMBER_ALONE = "tg.stop_gradient(t) for the number alone"

#: By what refuses, and what the code there has imported. `{}` is what it is about.
KINDS = {
    # float() and the like of a number
    "number": "use the tensor itself, NumPy's functions on it, or np.float64 and np.array of "
    "`import tapegrad.numpy as np`",
    "number beside the stand-in": "use np.float64(t), which keeps it, the tensor itself, or "
    "NumPy's functions",
    "number in entered code": "call float() and functions of math by their names: where one is "
    "stored or passed, give lambda v: math.sin(v), or NumPy's function, as np.sin",
    "number in a library": "use NumPy's functions on the tensor, or give the function a derivative "
    "with tg.autograd.Function",
    "math": "use {} on the tensor, or `import tapegrad.math as math`",
    "math in entered code": "call it by its name: where it is stored or passed, give "
    "lambda v: math.{1}(v), or {0}",
    "other math": "use `import tapegrad.math as math`",
    "other math in entered code": "call it by its name: where it is stored or passed, give a "
    "function of yours that calls math.{1}",
    "number in an extension": "it is compiled code: call it in `forward` of a "
    "tg.autograd.Function, whose `backward` has its derivative",
    "left out": "{0} is not entered, since {1}: enter=({0!r},) of the transform enters it",
    "in a package": "this is code of the package {}, whose functions are entered where they are "
    "called by their names, unless enter=() leaves them out; give the function that you call a "
    "derivative with tg.autograd.Function",
    # a plain array
    "array": f"{IMPORT} keeps it, in lists, conversions and arrays that are filled",
    "array beside the stand-in": "this function takes plain arrays: use operations on the tensor, "
    "or functions of tapegrad.numpy",
    "array in entered code": "call NumPy's functions by their names, np.array of a list too, not "
    "ones that are stored or passed",
    "dot": "a.dot(t) of a plain array does not dispatch: use a @ t or np.dot(a, t)",
    "container": "{}",
    # a write to a plain array
    "write": f"make the array with {IMPORT}, or with tg.zeros_like",
    "write beside the stand-in": "make the array inside the function with np.zeros, or copy it "
    "there with np.array(a)",
    "write outside of transforms": "make the array with tg.zeros: outside of transforms arrays of "
    "tapegrad.numpy are NumPy's",
    "complex write": "make the array with tg.zeros(…, dtype=complex)",
    # functions
    "package": "`from tapegrad.scipy import {}` has one that keeps it",
    "package in entered code": "call it by its name: one that is stored or passed is SciPy's own",
    "class in entered code": "objects that tapegrad.scipy.{} makes keep it, in attributes and "
    "containers, too",
    "sparse scaled": "write t * A in place of A * t, and (1.0 / t) * A in place of A / t",
    "not derived": "compute it with NumPy's functions on the tensor, or give it a derivative with "
    "tg.autograd.Function",
    "compiled code": "call the function without Numba, or declare its derivative: tg.elementwise "
    "for functions of numbers, tg.custom_vjp for those of arrays",
    "entered compiled code": "functions of numba.njit that are made outside of the differentiated "
    "one are differentiated too; write what guvectorize, stencil or jitclass made as one of these, "
    "or declare its derivative with tg.custom_vjp",
}

#: Objects that hold arrays, by their module.
HOLDERS = {
    "pandas": "pandas takes plain values: compute with the array, as in df.to_numpy() @ t",
    "xarray": "xarray takes plain values: compute with the array, as in data.values * t, or take "
    ".data of what it computes",
    "polars": "polars takes plain values: compute with the array, as in df.to_numpy() * t",
    "matplotlib": "Matplotlib draws plain values: draw t.detach().numpy()",
    "numpy.ma": "a masked array's mask would be ignored: use x.filled(value), or x.compressed()",
}

#: Functions of `math` by NumPy's names, or SciPy's, where those differ.
OF_MATH = dict(
    asin="np.arcsin",
    acos="np.arccos",
    atan="np.arctan",
    atan2="np.arctan2",
    asinh="np.arcsinh",
    acosh="np.arccosh",
    atanh="np.arctanh",
    pow="np.power",
    fsum="np.sum",
    sumprod="np.dot",
    dist="np.linalg.norm",
    erf="scipy.special.erf",
    erfc="scipy.special.erfc",
    lgamma="scipy.special.gammaln",
)

_COMPLEX = "complex numbers are not differentiated"
#: NumPy's functions without derivative: why, and what to use where there is something.
OF_NUMPY = {
    "roots": f"the roots may be complex, and {_COMPLEX}",
    "sort_complex": _COMPLEX,
    **dict.fromkeys("packbits unpackbits".split(), "it operates on integers"),
    **dict.fromkeys(
        "busday_count busday_offset datetime_as_string is_busday isnat".split(),
        "it operates on dates",
    ),
    **dict.fromkeys("bartlett blackman hamming hanning".split(), "its argument is a count"),
    **dict.fromkeys("tri tril_indices triu_indices".split(), "its arguments are counts"),
}

_FACTORS = "its factors are discontinuous where eigenvalues coincide"
_WHOLE = "differentiate the final result as a function of the matrix instead"
_POLISHED = "give it plain values, and start optimize.minimize at its result"
_STEPS = "call scipy.integrate.solve_ivp, whose steps are differentiated"
_LINEAR = "CubicSpline, make_interp_spline and others alike have derivatives"
_COUNTS = "its arguments are counts"
_NAMES_ONE = "it looks up a name or a setting"
_PLAIN_RESULT = "its result is of whole numbers or truth values"
_OF_YOURS = "it calls a function of yours with plain windows; write it with NumPy's functions"
_SETTLES = "it iterates until a result is close; detach its arguments"
_ACTIVE = "its solution is where some constraints are active: solve their equations as a function "
_ACTIVE += "of the recorded values, with np.linalg.solve"
_SPARSE_EIGEN = "use linalg.eigh or linalg.svd of A.toarray()"
_DRAWS = "it draws random numbers; draw them with plain arguments, and move them"
_MERGES = (
    "which clusters are merged is an answer: give plain data, and compute the distances of the "
)
_MERGES += "pairs that it names with spatial.distance"
_MASKED = "it computes with masked arrays, whose masks would be lost; scipy.stats has most of these"
_SEARCHES = (
    "it searches for the best value; minimize the negative log likelihood, with its gradient"
)
_SPARSE = "use a @ t, or t * sparse.csr_array(a) with the recorded value first"
_DENSITY = "write the density with NumPy and scipy.special"
_MADE = "objects that tapegrad.scipy.stats makes keep it, in attributes and containers, too"


def _of_module(module: str, names: str, reason: str) -> dict[str, str]:
    return {f"{module}.{name}": reason for name in names.split()}


#: SciPy's functions without derivative, by name below `scipy`, or modules and classes of them.
OF_SCIPY = {
    "cluster.hierarchy": _MERGES,
    **_of_module("cluster.vq", "kmeans kmeans2", _SETTLES),
    **_of_module("constants", "find precision unit value", _NAMES_ONE),
    "differentiate": "use tg.grad, tg.jacobian or tg.hessian, which can be differentiated, too",
    **_of_module("fft", "get_workers register_backend set_backend set_global_backend", _NAMES_ONE),
    **_of_module("fft", "set_workers skip_backend", _NAMES_ONE),
    **_of_module("fft", "next_fast_len prev_fast_len", _COUNTS),
    "fft.fhtoffset": "it takes the gamma function of complex numbers; give plain numbers",
    **_of_module("linalg", "dft hadamard helmert hilbert invhilbert invpascal pascal", _COUNTS),
    **_of_module("linalg", "find_best_blas_type get_blas_funcs get_lapack_funcs", _NAMES_ONE),
    "linalg.rq": "use q, r = np.linalg.qr(a[::-1].T) of the rows in reverse order",
    "linalg.interpolative": "its columns are chosen at random or by pivots; use np.linalg.svd",
    "linalg.funm": "it calls a user's function with eigenvalues; expm, logm, sqrtm, cosm, "
    "sinm, signm and fractional_matrix_power have derivatives",
    "linalg.expm_cond": "it is the largest of a matrix's singular values; expm_frechet has one",
    **dict.fromkeys(
        ["linalg.schur", "linalg.rsf2csf", "linalg.qz", "linalg.ordqz", "linalg.cdf2rdf"],
        f"{_FACTORS}; {_WHOLE}: sqrtm, logm, solve_sylvester have derivatives",
    ),
    "linalg.subspace_angles": "the ranks of its matrices are discontinuous; use np.linalg.svdvals "
    "of qᵀ p, with q and p of np.linalg.qr",
    "linalg.hessenberg": f"its factors are not unique; {_WHOLE}",
    "linalg.ldl": "its pivoting is discontinuous; use linalg.cholesky, lu or solve",
    "linalg.cossin": f"{_FACTORS}; use linalg.svd of a block",
    "linalg.matrix_balance": "its scales are powers of 2 and its permutation is discontinuous; "
    "both are piecewise constant: compute them from the detached matrix",
    **dict.fromkeys(
        ["linalg.qr_delete", "linalg.qr_insert", "linalg.qr_update", "linalg.qr_multiply"],
        "update the matrix and use np.linalg.qr of it",
    ),
    "linalg.clarkson_woodruff_transform": "it draws a random matrix; multiply by your own matrix",
    **_of_module("optimize", "brute direct", _POLISHED),
    "optimize.milp": _ACTIVE,
    **_of_module("optimize", "linear_sum_assignment quadratic_assignment", _PLAIN_RESULT),
    **_of_module("optimize", "approx_fprime check_grad", "use tg.grad"),
    **_of_module("optimize", "show_options linprog_verbose_callback", _NAMES_ONE),
    **_of_module("optimize", "bracket line_search", _SETTLES),
    **_of_module("integrate", "lebedev_rule newton_cotes", _COUNTS),
    "integrate.ode": _STEPS,
    "interpolate": _LINEAR,
    **_of_module("ndimage", "generic_filter generic_filter1d vectorized_filter", _OF_YOURS),
    "ndimage.labeled_comprehension": _OF_YOURS,
    "ndimage": _PLAIN_RESULT,
    **_of_module("signal", "besselap buttap correlation_lags max_len_seq unit_impulse", _COUNTS),
    **_of_module("signal", "place_poles remez", _SETTLES),
    "signal.choose_conv_method": "its result is a name",
    "signal.windows": _COUNTS,
    **_of_module("sparse", "eye eye_array identity get_index_dtype", _COUNTS),
    **_of_module("sparse", "rand random random_array", _DRAWS),
    "sparse.find": "use A.tocoo(), whose data has a derivative",
    "sparse.csgraph": "which edges are taken is an answer: give plain weights, and sum the "
    "recorded ones of the edges that it names",
    **_of_module("sparse.linalg", "eigs eigsh lobpcg svds", _SPARSE_EIGEN),
    **_of_module(
        "sparse.linalg", "expm inv norm", "use the function of scipy.linalg of A.toarray()"
    ),
    **_of_module("sparse.linalg", "lsqr lsmr", "use spsolve(A.T @ A, A.T @ b)"),
    **_of_module("sparse.linalg", "is_sptriangular spbandwidth onenormest", _PLAIN_RESULT),
    "sparse": _SPARSE,
    **_of_module("spatial", "convex_hull_plot_2d delaunay_plot_2d voronoi_plot_2d", "it draws"),
    "spatial.tsearch": _PLAIN_RESULT,
    **_of_module(
        "spatial.distance", "dice jaccard rogerstanimoto russellrao", "it is of truth values"
    ),
    **_of_module("spatial.distance", "sokalsneath yule", "it is of truth values"),
    **_of_module("spatial.distance", "is_valid_dm is_valid_y num_obs_dm num_obs_y", _PLAIN_RESULT),
    "spatial.distance": "for Euclidean distances write "
    "np.sqrt(np.sum((a[:, None] - b) ** 2, axis=-1))",
    **dict.fromkeys(["stats.distributions.rv_frozen", "stats.gaussian_kde"], _MADE),
    **_of_module("stats", "boxcox_normmax yeojohnson_normmax ppcc_max fit", _SEARCHES),
    **_of_module("stats", "bootstrap monte_carlo_test permutation_test goodness_of_fit", _DRAWS),
    **_of_module("stats", "multiscale_graphcorr sobol_indices bws_test dunnett", _DRAWS),
    **_of_module("stats", "barnard_exact boschloo_exact fisher_exact poisson_means_test", _COUNTS),
    **_of_module("stats", "anderson_ksamp ecdf logrank", "it is of ranks, which are steps"),
    "stats.anderson": "it fits the parameters; write the statistic with the distribution's logcdf",
    "stats.cramervonmises": "its p-value is a series without an end; write the statistic with "
    "the distribution's cdf",
    "stats.tukey_hsd": "its p-value is a quadrature; write the statistic with np.mean and np.var",
    "stats.wasserstein_distance_nd": _ACTIVE,
    "stats.contingency": _COUNTS,
    "stats.mstats": _MASKED,
    "stats.qmc.update_discrepancy": "call stats.qmc.discrepancy of all points",
    "stats.qmc": _DRAWS,
    "stats": _DENSITY,
}


def of_scipy(name: str) -> str:
    """What to do in place of one of SciPy's functions, by its name below `scipy`."""
    place = name
    while place:
        if place in OF_SCIPY:
            return OF_SCIPY[place]
        place = place.rpartition(".")[0]
    return KINDS["not derived"]


# --- The code that takes a number out of a tensor: read from its frame ----------------------------
# Python only asks a tensor for `float()`; the frame's instructions distinguish `float(t)` from
# `y[i] = t`, `"%f" % t` and `math.sin(t)`.


#: Code between a tensor and the user's line: this package, NumPy, SciPy, containers of arrays, and
#: Python's own library.
_PACKAGE = str(PACKAGE) + os.sep
_STAND_INS = str(PACKAGE / "numpy") + os.sep
_NUMPY = Path(np.__file__).resolve().parent
_NUMERIC = tuple(
    str(_NUMPY.parent / name) + os.sep
    for name in ("numpy", "scipy", "numba", "matplotlib", "mpl_toolkits", *sorted(CONTAINERS))
)
_SHOWING = (_NUMERIC[0] + "testing" + os.sep, str(_NUMPY / "_core" / "arrayprint.py"))
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_JSON = os.path.join(_STANDARD, "json", "encoder.py")
_PACKAGES = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
_INSTALLED = tuple(_STANDARD + name for name in ("site-packages", "dist-packages"))

#: How classes of compiled functions end in code that Cython and others have made.
_OF_CYTHON = ("cython_function_or_method", "fused_cython_function", "nb_func", "fortran")
_STORES = [dis.opmap.get(name) for name in ("STORE_SUBSCR", "STORE_SLICE")]  # Python 3.12
_REMAINDERS = [dis.opmap.get(name) for name in ("BINARY_MODULO", "INPLACE_MODULO")]  # Python 3.10
_BINARY = dis.opmap.get("BINARY_OP")
_NAMES_LOADED = ("LOAD_GLOBAL", "LOAD_NAME")
_REMAINDER_NUMBERS = (6, 19)  # the codes of `%` and `%=` among binary operators


class _Asked:
    """Stands for a tensor, and says where it was asked for a number."""

    def __float__(self):
        frame = sys._getframe(1)
        self.seen = _stores(frame), _takes_remainder(frame)
        return 0.0


def _bytecode_is_known() -> bool:
    """Whether places of a write and of a format are found, and `float()` is neither."""
    asked, seen = _Asked(), []
    np.zeros(1)[0] = asked
    seen.append(asked.seen)
    "%f" % asked  # noqa: UP031
    seen.append(asked.seen)
    float(asked)
    return [*seen, asked.seen] == [(True, False), (False, True), (False, False)]


def writes_item(frame: types.FrameType) -> bool:
    """Whether a frame is at `y[i] = t`."""
    return compat.holds("cpython-bytecode", _bytecode_is_known) and _stores(frame)


def formats(frame: types.FrameType) -> bool:
    """Whether a frame is at `text % t`; a tensor's own `%` asks for no number."""
    return compat.holds("cpython-bytecode", _bytecode_is_known) and _takes_remainder(frame)


def _stores(frame: types.FrameType) -> bool:
    return frame.f_code.co_code[frame.f_lasti] in _STORES


def _takes_remainder(frame: types.FrameType) -> bool:
    instruction, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return instruction in _REMAINDERS or (instruction == _BINARY and argument in _REMAINDER_NUMBERS)


def is_users(frame: types.FrameType | None) -> bool:
    """Whether code that asks for the class of a tensor takes it for data: not what copies objects.

    NumPy's code is written for tensors, except for `isscalar`.
    """
    while frame is not None and abstract_class(frame) is not None:
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__") in (
        "copy",
        "copyreg",
        "fractions",
        "pickle",
    ):
        return False
    file = frame.f_code.co_filename
    return not file.startswith((_PACKAGE, *_NUMERIC)) or frame.f_code.co_name == "isscalar"


def is_ours(frame: types.FrameType) -> bool:
    """Whether a frame runs code of this package."""
    return frame.f_code.co_filename.startswith(_PACKAGE)


def package_of(frame: types.FrameType | None) -> str | None:
    """The installed package whose code a frame runs; None for this one, NumPy and its like."""
    if frame is None or not _is_of_package(frame.f_code.co_filename):
        return None
    return outer(frame.f_globals.get("__name__", ""))


@functools.lru_cache(maxsize=1024)
def _is_of_package(file: str) -> bool:
    is_installed = any(part in file for part in _PACKAGES)
    return is_installed and not file.startswith((_PACKAGE, *_NUMERIC[:3]))


def is_unaware(frame: types.FrameType) -> bool:
    """Whether code of an installed package runs that does not know of this one.

    It asks for numbers as it asks NumPy's arrays, and not for values without derivatives.
    """
    return package_of(frame) is not None and not imports(frame, PACKAGE.name)


def function_of_extension(frame: types.FrameType) -> str | None:
    """The compiled function of a module that a frame is calling: the last that its line has named.

    Those of Python's built-in names and of NumPy are none.
    """
    known: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    found, owner = None, None
    for name in _names_before(frame):
        value = getattr(owner, name, None) if owner is not None else known.get(name)
        owner = value if isinstance(value, types.ModuleType) else None
        module, kind = getattr(value, "__module__", None), type(value)
        is_compiled = kind is types.BuiltinFunctionType or kind.__name__.endswith(_OF_CYTHON)
        if is_compiled and isinstance(module, str) and outer(module) not in ("builtins", "numpy"):
            found = f"{module}.{getattr(value, '__name__', name)}"
    return found


def is_numbas(frame: types.FrameType) -> bool:
    """Whether a frame runs Numba's code, or calls a function that Numba has compiled."""
    if outer(frame.f_globals.get("__name__") or "") == "numba":
        return True
    owners = [frame.f_locals, frame.f_globals]
    named = [known.get(name) for name in _names_before(frame) for known in owners]
    return any([outer(type(one).__module__ or "") == "numba" for one in named])


def abstract_class(frame: types.FrameType | None) -> type | None:
    """The abstract base class that a frame compares the class of an object with."""
    is_abc = frame is not None and frame.f_globals.get("__name__") == "abc"
    return frame.f_locals.get("cls") if frame is not None and is_abc else None


def is_library(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    standard = file.startswith(_STANDARD) and not file.startswith(_INSTALLED)
    return standard or file.startswith((*_NUMERIC, "<frozen "))


def is_stand_in(frame: types.FrameType | None, through: tuple[str, ...] = ()) -> bool:
    """Whether a function of `tapegrad.numpy` is the caller, perhaps through NumPy's Python code."""
    while frame is not None and not frame.f_code.co_filename.startswith(_STAND_INS):
        if not frame.f_code.co_filename.startswith((*_NUMERIC, *through)):
            return False
        frame = frame.f_back
    return frame is not None


def asks_for_stand_in(frame: types.FrameType | None) -> bool:
    """As `is_stand_in`, also through this package."""
    return is_stand_in(frame, (_PACKAGE,))


def users_line() -> str:
    """`file:line` of the innermost code that is neither this package's nor a library's."""
    frame = users_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown"


def users_frame() -> types.FrameType | None:
    """The frame of the innermost code that is neither this package's nor a library's."""
    frame: types.FrameType | None = sys._getframe(1)
    first = None
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            first = first or frame
            if not is_library(frame):
                break
        frame = frame.f_back
    return frame or first


def imports(frame: types.FrameType | None, package: str) -> bool:
    """Whether the code of a frame has a package, or a module of it, under a global name."""
    found = [
        value.__name__ for value in frame_globals(frame) if isinstance(value, types.ModuleType)
    ]
    return any(f"{name}.".startswith(f"{package}.") for name in found)


def names_any(frame: types.FrameType, libraries: Collection[str]) -> bool:
    """Whether the code of a frame names a library, or a function or class of one."""
    loads = [one for one in dis.get_instructions(frame.f_code) if one.opname in _NAMES_LOADED]
    named = [frame.f_globals.get(one.argval) for one in loads]
    owners = [
        one.__name__ if isinstance(one, types.ModuleType) else getattr(one, "__module__", None)
        for one in named
    ]
    return any([isinstance(one, str) and outer(one) in libraries for one in owners])


def frame_globals(frame: types.FrameType | None) -> list:
    return [] if frame is None else [*frame.f_globals.values(), *frame.f_locals.values()]


def function_of_scipy(frame: types.FrameType | None) -> str | None:
    """The name below `scipy` of the function that the user has called, None for others."""
    found: list[types.FrameType] = []
    while frame is not None and is_library(frame):
        if frame.f_globals.get("__name__", "").startswith("scipy."):
            found.append(frame)
        frame = frame.f_back
    if not found:
        return None
    return scipy_name(found[::-1]) or found[-1].f_code.co_name


def container_advice(frame: types.FrameType | None) -> str | None:
    """The alternative to storing a recorded value in a container, if a frame does that."""
    while frame is not None and is_library(frame):
        name = frame.f_globals.get("__name__", "")
        for module, advice in HOLDERS.items():
            if name == module or name.startswith(module + "."):
                return advice
        frame = frame.f_back
    return None


def library_function(frame: types.FrameType) -> str | None:
    """The name of the library's function that a frame runs, None for the user's code."""
    return frame.f_code.co_name if is_library(frame) else None


def has_loaded(frame: types.FrameType, name: str) -> bool:
    """Whether the line of a frame has loaded a name, as in `a.dot(t)`."""
    return name in _names_before(frame)


def compares(frame: types.FrameType | None) -> bool:
    """Whether NumPy is comparing arrays: an error would count as unequal."""
    while frame is not None and _is_numpy(frame):
        if frame.f_code.co_name in ("array_equal", "array_equiv"):
            return True
        frame = frame.f_back
    return False


def shows(frame: types.FrameType, is_differentiated: Callable[[], bool]) -> bool:
    """Whether values that a frame reads are compared by `np.testing`, printed, or drawn.

    Matplotlib also computes: in a function that is differentiated it gets none.
    """
    while frame.f_code.co_filename.startswith(_PACKAGE) or _is_numpy(frame):
        if frame.f_code.co_filename.startswith(_SHOWING):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return _is_matplotlib(frame.f_code.co_filename) and not is_differentiated()


def is_json(frame: types.FrameType) -> bool:
    """Whether `json` asks a frame for what it cannot write."""
    return frame.f_code.co_filename == _JSON


def _is_numpy(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_NUMERIC[0])


def _is_matplotlib(file: str) -> bool:
    module = sys.modules.get("matplotlib")
    if module is None or module.__file__ is None:
        return False
    folder = os.path.dirname(module.__file__)
    others = os.path.join(os.path.dirname(folder), "mpl_toolkits")
    return file.startswith((folder + os.sep, others + os.sep))


def function_of_math(frame: types.FrameType) -> str | None:
    """The function of `math` that a frame is calling: the last that its line has named so far."""
    known = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}
    found, owner = None, None
    for name in _names_before(frame):
        value = known.get(name)
        if owner is math and callable(getattr(math, name, None)):
            found = name
        elif value is float or value is complex:
            found = None
        elif getattr(math, _name(value), None) is value and value is not None:
            found = _name(value)
        owner = value if isinstance(value, types.ModuleType) else None
    return found


def _names_before(frame: types.FrameType) -> list[str]:
    """Names that the line of a frame has loaded before the instruction that it is at."""
    code = frame.f_code
    spans = [(start, end) for start, end, line in code.co_lines() if line == frame.f_lineno]
    return [
        one.argval
        for one in dis.get_instructions(code)
        if one.offset < frame.f_lasti
        and any(start <= one.offset < end for start, end in spans)
        and one.opname.startswith("LOAD_")
        and one.opname != "LOAD_CONST"
        and isinstance(one.argval, str)
    ]


def _name(value) -> str:
    return value.__name__ if isinstance(value, types.BuiltinFunctionType) else ""


# --- What code that asks for the class of a number does with it -----------------------------------


def decides(frame: types.FrameType, one: type, other: type) -> bool:
    """Whether it counts for a frame, which asks for a class, which of two it is.

    That is so for `x.__class__`, and for tests of `match` and of `singledispatch` that hold of one
    of them. What debuggers and other installed packages ask, they show.
    """
    code, name = frame.f_code, frame.f_globals.get("__name__")
    if name == "functools" and "dispatch" in frame.f_locals:
        dispatch = frame.f_locals["dispatch"]
        return dispatch(one) is not dispatch(other)
    if is_library(frame) or package_of(frame) is not None:
        return False
    every = [item for item in dis.get_instructions(code) if item.opname != "CACHE"]
    at = next((k for k, item in enumerate(every) if item.offset == frame.f_lasti), 0)
    if every[at].opname != "MATCH_CLASS":
        return every[at].argval == "__class__"
    asked = _class_before(frame, every[: at - 1])
    return not isinstance(asked, type) or issubclass(one, asked) != issubclass(other, asked)


def _class_before(frame: types.FrameType, every: list) -> object:
    """The object that the last of some instructions load: a name, with attributes."""
    names: list[str] = []
    while every and every[-1].opname in ("LOAD_ATTR", "NOP", "JUMP_FORWARD"):
        names += [every[-1].argval] if every[-1].opname == "LOAD_ATTR" else []
        every = every[:-1]
    if not every:
        return None
    found = every[-1].argval
    if every[-1].opname != "LOAD_CONST":
        scope = {**vars(builtins), **frame.f_globals, **frame.f_locals}
        found = scope.get(found)
    for name in reversed(names):
        found = getattr(found, name, None)
    return found
