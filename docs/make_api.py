"""The pages of the public names, by their docstrings; `conf.py` writes them for the site."""

from __future__ import annotations

import importlib
import inspect

import tapegrad as tg
from tapegrad._core.ops.table import TABLE, Pointwise

#: Pages of `tapegrad` itself: the title, what it begins with, its names.
CHOSEN = {
    "derivatives": (
        "API: derivatives",
        "Functions that take a function and return its derivatives: see [](../derivatives.md).",
        "grad value_and_grad elementwise_grad jacobian hessian hvp vjp jvp vmap stop_gradient "
        "checkpoint check_grads",
    ),
    "compile": (
        "API: compiled functions",
        "See [](../programs.md).",
        "compile Compiled load record Tape",
    ),
    "custom": (
        "API: operations and solvers of your own",
        "See [](../custom.md) and [](../black_boxes.md).",
        "elementwise custom_vjp implicit fixed_point",
    ),
    "tensors": (
        "API: tensors, modes and settings",
        "See [](../autograd.md) and [](../configuration.md).",
        "Tensor ComplexTensor DerivativeLost no_grad enable_grad set_grad_enabled inference_mode "
        "is_grad_enabled is_inference_mode_enabled manual_seed config show_config",
    ),
}
#: Pages of the functions of arrays, by the files that declare them.
OF_ARRAYS = {
    "elementwise": ("API: element-wise functions", "elementwise_functions operators table"),
    "arrays": (
        "API: making, shaping and joining arrays",
        "creation shapes joining padding inplace_functions apply_along_axis",
    ),
    "reductions": (
        "API: sums, orders and sets",
        "reductions nan_reductions cumulative sorting quantiles sets logsumexp softmax "
        "without_derivative",
    ),
    "linalg": (
        "API: linear algebra",
        "linear_algebra einsum determinants general_eigenvalues inverses least_squares norms "
        "singular_values solving symmetric_eigenvalues triangular_factors",
    ),
    "signals": (
        "API: Fourier transforms, interpolation and polynomials",
        "fourier_transforms convolving interpolation polynomials",
    ),
}
#: Pages of modules: the title, what it begins with, the modules whose names are documented.
MODULES = {
    "autograd": (
        "tapegrad.autograd",
        "PyTorch's interface: see [](../autograd.md), and [](../profiling.md) for the profiler.",
        "autograd autograd.functional autograd.graph autograd.profiler",
    ),
    "nn": ("tapegrad.nn", "Layers and losses: see [](../nn.md).", "nn nn.functional nn.init"),
    "optim": ("tapegrad.optim", "Optimizers: see [](../nn.md).", "optim"),
    "math": ("tapegrad.math", "Stand-ins for `math`: see [](../numpy.md).", "math"),
}
#: Pages of names that have the documentation of others.
MIRRORS = {
    "numpy": (
        "numpy numpy.fft numpy.linalg numpy.random",
        "Stand-ins for NumPy's functions, with their signatures and results: [](../numpy.md) says "
        "when they are needed, [](../operations.md) which have a derivative.",
    ),
    "scipy": (
        "scipy",
        "Stand-ins for SciPy's modules. [](../scipy_names.md) says of each name what it does.",
    ),
}
SUBMODULES = {"autograd", "math", "nn", "numpy", "optim", "scipy", "testing"}


def module(name: str):
    return importlib.import_module(f"tapegrad.{name}")


def file_of(name: str) -> str:
    """The stem of the file that declares a function of arrays."""
    if name in TABLE and isinstance(TABLE[name], Pointwise):
        return "table"
    stem = inspect.unwrap(getattr(tg, name)).__module__.rpartition(".")[2]
    return "table" if stem == "tapegrad" else stem


def names_of(part: str) -> list[str]:
    """The public names of a module, those that it defines itself."""
    found = module(part)
    names = getattr(found, "__all__", None) or [n for n in vars(found) if n[0] != "_"]
    own = [n for n in names if not inspect.ismodule(getattr(found, n))]
    if hasattr(found, "__all__"):
        return own
    return [n for n in own if getattr(getattr(found, n), "__module__", "") == found.__name__]


def entry(full: str, value) -> str:
    """The directive that documents a name."""
    if isinstance(value, type):
        inherited = "" if full.startswith("tapegrad.nn.") else "   :inherited-members:\n"
        return f".. autoclass:: {full}\n   :members:\n{inherited}"
    kind = "function" if callable(value) else "data"
    return f".. auto{kind}:: {full}\n"


def page(title: str, text: str, entries: list[str]) -> str:
    return f"# {title}\n\n{text}\n\n```{{eval-rst}}\n{chr(10).join(entries)}```\n"


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    made = {}
    for name, (title, text, names) in CHOSEN.items():
        made[name] = page(
            title, text, [entry(f"tapegrad.{n}", getattr(tg, n)) for n in names.split()]
        )
    chosen = {n for _, _, names in CHOSEN.values() for n in names.split()}
    others = [n for n in tg.__all__ if n not in chosen | SUBMODULES]
    for name, (title, stems) in OF_ARRAYS.items():
        mine = sorted(n for n in others if file_of(n) in stems.split())
        text = (
            "Reached as `tg.name`, and as NumPy's function of a tensor: see [](../operations.md)."
        )
        made[name] = page(title, text, [entry(f"tapegrad.{n}", getattr(tg, n)) for n in mine])
    for name, (title, text, parts) in MODULES.items():
        entries = []
        for part in parts.split():
            entries += [f".. module:: tapegrad.{part}\n"]
            entries += [
                entry(f"tapegrad.{part}.{n}", getattr(module(part), n)) for n in names_of(part)
            ]
        made[name] = page(title, text, entries)
    for name, (parts, text) in MIRRORS.items():
        lists = [f"# tapegrad.{name}\n\n{text}\n"]
        for part in parts.split():
            names = ", ".join(f"`{n}`" for n in sorted(module(part).__all__))
            lists += [f"\n## Names of tapegrad.{part}\n\n{names}\n"]
        made[name] = "".join(lists)
    return made
