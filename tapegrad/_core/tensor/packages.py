"""Installed packages: which of them transforms enter, and why others are left out."""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Iterable

from ..config import config

_DERIVES = "it differentiates its own arrays"
_ARRAYS = "it computes with arrays of its own"
_NUMBERS = "it computes with numbers or symbols of its own"
_COMPILED = "it hands its arguments to compiled code"
_DRAWS = "it draws, and keeps what it has drawn"
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
    _DRAWS: "altair bokeh holoviews ipywidgets manim matplotlib mayavi mpl_toolkits panel plotly "
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
        given = (enter,) if isinstance(enter, str) else enter
        self.named = None if given is None else frozenset(map(_package, given))
        _named.update(self.named or ())

    def __contains__(self, package: object) -> bool:
        if not config.enter or self.named == frozenset():
            return False
        return package not in LEFT_OUT or package in (self.named or ())


class _Any:
    """The packages that any transform of this process may enter."""

    def __contains__(self, package: object) -> bool:
        return config.enter and (package not in LEFT_OUT or package in _named)


ANY = _Any()


def _package(given) -> str:
    if not isinstance(given, str) or not all(map(str.isidentifier, given.split("."))):
        raise TypeError(
            f"tapegrad: enter has {given!r:.60}; it must be a tuple of names of installed "
            "packages, () for none"
        )
    return outer(given)
