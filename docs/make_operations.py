"""Writes docs/operations.md from the table of operations."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

import tapegrad as tg
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._core.tensor import runtime
from tapegrad._core.tensor.registry import OF_NUMPY, load_families

PAGE = Path(__file__).resolve().parent / "operations.md"

HEAD = """# Operations

`python docs/make_operations.py` generates this page from the table in `tapegrad/_core/ops`. Do not
edit it: change the declaration and run the command.

## Element-wise operations

`x`, `y`, `z` are the inputs, `out` is the value, `select(condition, a, b)` is `a` where the
condition holds, else `b`. There is one partial derivative per input, in order. The adjoint of a row
times the partial derivative is added to the adjoint of the input. An adjoint of exactly 0 adds 0,
even if the partial derivative is infinite or NaN; so does a branch `0.0` of a partial derivative,
even if the adjoint is. The domain is the range of the tests; the
operation takes any number. Other names, such as `series`, are steps that the declaration has. The
functions from `erfinv` on are those of `scipy.special` and `tapegrad.scipy.special` alone. Rows of
complex numbers, `complex_exp_real` and the like, are in
`tapegrad/_core/ops/complex_elementwise.py`.
"""

STRUCTURAL = """
## Operations on whole arrays

The file in the last column declares the operation: value, vjp and jvp, and compiled kernels where
they exist. Several public functions may record the same op: `link` serves `concatenate`, `sum`
along an axis, `copy` and others.
"""

FUNCTIONS = """
## Public functions

A function is reached as `tg.name`, as NumPy's function on a tensor, and as a method where one is
named. A string in the NumPy column without `np.` is a ufunc of `scipy.special`.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    return f"`{cell(text)}`"


def table(heads, rows) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def interval(op: Pointwise) -> str:
    """Domains of the inputs, named once if they are equal."""
    texts = [f"{low:g} … {high:g}" for low, high in op.domain]
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(f"{n}: {t}" for n, t in zip(op.inputs, texts, strict=True))


def pointwise_rows():
    for op in TABLE.values():
        if isinstance(op, Pointwise) and not op.name.startswith("complex_"):
            partials = "; ".join(code(partial) for partial in op.partials)
            name = f"{op.name}({', '.join(op.inputs)})"
            yield code(name), cell(op.doc), partials, interval(op), cell(op.awkward)


def structural_rows():
    """By file: the order of the table is that in which modules were imported."""
    declared = [op for op in TABLE.values() if not isinstance(op, Pointwise)]
    for op in sorted(declared, key=lambda op: (place_of(op), op.code)):
        yield code(op.name), cell(op.doc), cell(op.awkward), code(place_of(op))


def place_of(op) -> str:
    """The file that declares an operation on whole arrays."""
    file = Path(inspect.getsourcefile(op.vjp or op.adjoint))
    return file.relative_to(Path(tg.__file__).parent).as_posix()


def numpy_name(function) -> str:
    """How NumPy or SciPy calls a function."""
    if isinstance(function, str):
        return function
    for prefix, module in (("np.", np), ("np.linalg.", np.linalg), ("np.fft.", np.fft)):
        if getattr(module, function.__name__, None) is function:
            return prefix + function.__name__
    return function.__name__


def method_names() -> dict:
    """Methods and properties of tensors, by the function behind them."""
    found: dict = {}
    for name in sorted(vars(runtime.Tensor)):
        value = vars(runtime.Tensor)[name]
        value = value.fget if isinstance(value, property) else value
        if inspect.isfunction(value) and not name.startswith("_"):
            found.setdefault(value, []).append(name)
            # Where NumPy's error state was another one in this process, methods look at it first.
            found.setdefault(getattr(value, "__wrapped__", None), []).append(name)
    return found


#: Names that only older releases of NumPy have.
_OLD_NAMES = {"np.row_stack", "np.trapz"}


def function_rows():
    methods = method_names()
    names: dict = {}
    for theirs, ours in OF_NUMPY.items():
        if numpy_name(theirs) not in _OLD_NAMES:
            names.setdefault(ours, set()).add(numpy_name(theirs))
    for name in sorted(tg.__all__):
        ours = getattr(tg, name)
        if inspect.isclass(ours) and name != "set_grad_enabled":
            continue
        numpy_names = ", ".join(code(n) for n in sorted(names.get(ours, ())))
        own = ", ".join(code(f".{m}") for m in methods.get(ours, ()))
        text = (inspect.getdoc(ours) or "").split("\n\n")[0]
        yield code(f"tg.{name}"), numpy_names, own, cell(text)


def text() -> str:
    """The whole page."""
    load_families()
    heads = "op", "value", "partial derivatives", "domain", "awkward points"
    return (
        HEAD
        + "\n"
        + table(heads, pointwise_rows())
        + STRUCTURAL
        + "\n"
        + table(("op", "what", "awkward points", "file"), structural_rows())
        + FUNCTIONS
        + "\n"
        + table(("function", "NumPy", "method", "what"), function_rows())
    )


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
