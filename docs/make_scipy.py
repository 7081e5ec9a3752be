"""Writes docs/scipy_names.md: what each public name of SciPy does with recorded values."""

from __future__ import annotations

import importlib
import inspect
import textwrap
import types
from pathlib import Path

import numpy as np

from tapegrad._core.tensor.callers import of_scipy
from tapegrad._core.tensor.registry import OF_NUMPY
from tapegrad.scipy._forwarding import find_ours
from tapegrad.scipy._stats_formulas import RELEASED

PAGE = Path(__file__).resolve().parent / "scipy_names.md"
#: What classes without a counterpart here do.
HOLDS = "a class of SciPy's own"
#: The version of SciPy whose names the page has.
VERSION = "1.17"
MODULES = """
cluster.hierarchy cluster.vq constants differentiate fft integrate interpolate linalg
linalg.interpolative ndimage optimize signal signal.windows sparse sparse.csgraph sparse.linalg
spatial spatial.distance spatial.transform special stats stats.contingency stats.mstats stats.qmc
""".split()

HEAD = f"""# SciPy's functions and classes: what each name does

`python docs/make_scipy.py` generates this page from SciPy {VERSION}. Do not edit it.

For recorded values a name *differentiates*: results keep derivatives to the arguments that have
one. It *answers* if its results are constant between steps, as ranks, positions and what is true or
not: they are SciPy's, without derivative. All other functions *refuse*: they raise
`DerivativeLost`, which names the function and says what to do. Classes of SciPy's own, as `Bounds`,
hold what they are given; what makes a plain array of it raises the error. This holds for
`from tapegrad.scipy import …` and, in functions that are entered, for SciPy's own imports. With
plain arguments every name is SciPy's. Which arguments have no derivative is in
[limits_scipy.md](limits_scipy.md).
"""

#: Names with results that have no derivative, as `tests/scipy/test_scipy_names.py` finds.
ANSWERS = """
linalg.bandwidth linalg.ishermitian linalg.issymmetric ndimage.maximum_position
ndimage.minimum_position signal.findfreqs sparse.issparse spatial.distance.hamming
special.gammasgn stats.ansari stats.brunnermunzel stats.chatterjeexi stats.cramervonmises_2samp
stats.fligner stats.friedmanchisquare stats.kendalltau stats.kruskal stats.ks_2samp
stats.mannwhitneyu stats.mood stats.page_trend_test stats.percentileofscore stats.quantile_test
stats.rankdata stats.ranksums stats.somersd stats.spearmanr stats.spearmanrho stats.tiecorrect
stats.weightedtau stats.wilcoxon
""".split()
#: Names of functions and classes here that refuse all recorded values with reasons of their own.
REFUSING = {
    "interpolate.BivariateSpline": "it has no data; RectBivariateSpline has a derivative",
    "interpolate.CloughTocher2DInterpolator": "its slopes are found by iterations; "
    "LinearNDInterpolator and RBFInterpolator have a derivative",
    "ndimage.geometric_transform": "it calls a mapping with plain numbers; use map_coordinates",
    "special.elliprd": "elliprf and elliprc have derivatives, which are made of it",
    **dict.fromkeys(
        [f"spatial.{name}" for name in "ConvexHull Delaunay HalfspaceIntersection".split()]
        + ["spatial.SphericalVoronoi", "spatial.Voronoi"],
        "which points belong together is an answer; make it of plain points, and compute areas and "
        "volumes of those that its indices name",
    ),
    "spatial.transform.RigidTransform": "use Rotation, and add the translation",
    "spatial.transform.RotationSpline": "its rates are found by iterations; use Slerp",
    "stats.multivariate_hypergeom": "its arguments are whole numbers",
    **dict.fromkeys(
        [f"stats.{name}" for name in "ortho_group special_ortho_group unitary_group".split()]
        + [f"stats.{name}" for name in "random_correlation random_table uniform_direction".split()],
        "samples have no derivative to the parameters",
    ),
}

#: Groups of methods in the table of distributions.
GROUPS = {
    "density": ("logpdf", "logpmf"),
    "distribution function": ("cdf",),
    "quantile": ("ppf",),
    "mean, var": ("mean",),
    "entropy": ("entropy",),
    "rvs": ("rvs",),
}


def names_of(module: str) -> dict[str, object]:
    theirs = importlib.import_module(f"scipy.{module}")
    return {name: getattr(theirs, name) for name in theirs.__all__}


def is_known(module: str, name: str, value) -> bool:
    """Whether a name takes recorded values."""
    if f"{module}.{name}" in REFUSING:
        return False
    if isinstance(value, np.ufunc) and getattr(np, name, None) is value:
        return name in OF_NUMPY  # as `special.log1p`, which is NumPy's
    if find_ours(f"{module}.{name}") is not None:
        return True
    if module != "stats" or inspect.isroutine(value):
        return False
    ours = importlib.import_module("tapegrad.scipy.stats")
    return getattr(ours, name) is not value


def is_counted(module: str, name: str, value) -> bool:
    """Whether a name computes: no module, constant, error, nor one of the distributions."""
    if isinstance(value, types.ModuleType) or not callable(value):
        return False
    if isinstance(value, type) and issubclass(value, (Exception, Warning)):
        return False
    return not is_distribution(value)


def is_distribution(value) -> bool:
    return hasattr(value, "_parse_args") and hasattr(value, "logsf")


def paragraph(names) -> str:
    return textwrap.fill(" ".join(f"`{name}`" for name in sorted(names)), 100) + "\n"


def why_not(module: str, name: str, value) -> str:
    """Why a name refuses, and what does instead."""
    if (own := REFUSING.get(f"{module}.{name}")) is not None:
        return own
    return HOLDS if isinstance(value, type) else of_scipy(f"{module}.{name}")


def section(module: str) -> tuple[str, int, int, int]:
    every = {k: v for k, v in names_of(module).items() if is_counted(module, k, v)}
    known = [name for name, value in every.items() if is_known(module, name, value)]
    answers = [name for name in known if f"{module}.{name}" in ANSWERS]
    kept = [name for name in known if name not in answers]
    rest: dict[str, list[str]] = {}
    for name in sorted({*every} - {*known}):
        rest.setdefault(why_not(module, name, every[name]), []).append(name)
    parts = [f"## scipy.{module}\n"]
    if kept:
        parts.append(f"{len(kept)} differentiate:\n\n{paragraph(kept)}")
    if answers:
        parts.append(f"{len(answers)} answer:\n\n{paragraph(answers)}")
    for reason, names in rest.items():
        why = "" if reason == of_scipy("") else f" ({reason})"
        parts.append(f"{textwrap.fill(f'{len(names)} refuse{why}:', 100)}\n\n{paragraph(names)}")
    return "\n".join(parts), len(kept), len(answers), len(every) - len(known)


def distributions() -> str:
    stats = importlib.import_module("scipy.stats")
    heads = ["distribution", *GROUPS]
    rows = [heads, ["---"] * len(heads)]
    for name, value in sorted(names_of("stats").items()):
        if not is_distribution(value) or isinstance(value, type):
            continue
        methods = RELEASED.get(name, ())
        marks = ["yes" if {*some} & {*methods} else "" for some in GROUPS.values()]
        rows.append([f"`{name}`", *marks])
    count = sum(hasattr(getattr(stats, k), m) for k, v in RELEASED.items() for m in v)
    text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return (
        f"## Distributions of scipy.stats\n\n{len(RELEASED)} of {len(rows) - 2} distributions "
        f"have {count} methods that differentiate, of frozen ones (`norm(m, s)`), too.\n"
        f"Where it says yes, they do to the argument and to every parameter, but to\n"
        f"some that are whole numbers. Continuous ones have `nnlf`, too.\n\n{text}\n"
    )


def text() -> str:
    sections = [section(module) for module in MODULES]
    counts = [sum(one[k] for one in sections) for k in (1, 2, 3)]
    summary = (
        f"Of {sum(counts)} functions and classes {counts[0]} differentiate, {counts[1]} answer, "
        f"{counts[2]} refuse.\n"
    )
    return "\n".join([HEAD, summary, distributions(), *[one[0] for one in sections]])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
