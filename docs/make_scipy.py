"""Writes docs/scipy_names.md: what each public name of SciPy does with recorded values."""

from __future__ import annotations

import importlib
import inspect
import textwrap
import types
from pathlib import Path

import numpy as np

from tapegrad._core.tensor.refusal_advice import of_scipy
from tapegrad._core.tensor.registry import OF_NUMPY
from tapegrad.scipy._distribution_table import RELEASED
from tapegrad.scipy._forwarding import find_ours

PAGE = Path(__file__).resolve().parent / "scipy_names.md"
#: The version of SciPy whose names the page has.
VERSION = "1.17"
MODULES = """
cluster.hierarchy cluster.vq constants differentiate fft integrate interpolate linalg
linalg.interpolative ndimage optimize signal signal.windows sparse sparse.csgraph sparse.linalg
spatial spatial.distance spatial.transform special stats stats.contingency stats.mstats stats.qmc
""".split()

HEAD = f"""# SciPy's names

`python docs/make_scipy.py` generates this page from SciPy {VERSION}. Do not edit it.

For recorded values a name *differentiates*: results keep derivatives to the arguments that have
one, and what is a whole number, an index or a test's answer is a plain result, as in SciPy. All
other functions *refuse*: they raise `DerivativeLost`, which names the function and says what to do.
Both hold for `from tapegrad.scipy import …` and, in functions that are entered, for SciPy's own
imports. With plain arguments every name is SciPy's. Which arguments have no derivative is in
[limits.md](limits.md).
"""

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


def differentiates(module: str, name: str, value) -> bool:
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


def section(module: str) -> tuple[str, int, int]:
    every = {k: v for k, v in names_of(module).items() if is_counted(module, k, v)}
    kept = [name for name, value in every.items() if differentiates(module, name, value)]
    rest: dict[str, list[str]] = {}
    for name in sorted({*every} - {*kept}):
        rest.setdefault(of_scipy(f"{module}.{name}"), []).append(name)
    parts = [f"## scipy.{module}\n"]
    if kept:
        parts.append(f"{len(kept)} differentiate:\n\n{paragraph(kept)}")
    for reason, names in rest.items():
        why = "" if reason == of_scipy("") else f" ({reason})"
        parts.append(f"{textwrap.fill(f'{len(names)} refuse{why}:', 100)}\n\n{paragraph(names)}")
    return "\n".join(parts), len(kept), len(every) - len(kept)


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
        f"Where it says yes, they do to the argument and to every parameter.\n\n{text}\n"
    )


def text() -> str:
    sections = [section(module) for module in MODULES]
    counts = [sum(one[k] for one in sections) for k in (1, 2)]
    summary = (
        f"Of {sum(counts)} functions and classes {counts[0]} differentiate, {counts[1]} refuse.\n"
    )
    return "\n".join([HEAD, summary, distributions(), *[one[0] for one in sections]])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
