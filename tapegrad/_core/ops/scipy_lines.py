"""How functions of `scipy.special` are declared as element-wise operations."""

from __future__ import annotations

from ..codegen.special_values import NO_PARTIAL, REFUSED, Special, declare_scipys
from .table import STEERING, Pointwise, pointwise


def scipys(
    name, inputs, value, *partials, theirs="", outputs=0, which=0, whole=False, **fields
) -> Pointwise:
    """Declare a function of SciPy's; without an expression of the `value` kernels call SciPy's.

    `theirs` is SciPy's name for it. Of a function with several `outputs` this is the one at
    `which`. The first argument of those that are `whole` is mostly a whole number.
    Rows of them are computed by their own kernels: there are many, and few are in use at a time.
    """
    theirs = theirs or name
    if not value:
        arguments = inputs.split()
        declare_scipys(name, Special(theirs, len(arguments), outputs, which, whole))
        value = f"np.{name}({', '.join(arguments)})"
    if outputs:  # NumPy's kernels compute one of them
        fields |= {"numpy": f"numpy.{name}", "also": None, "table": STEERING}
    else:
        fields.setdefault("numpy", f"scipy.special.{theirs}")
    return pointwise(name, inputs, value, *partials, apart=True, **fields)


def ours(name: str, inputs: str, *partials: str, doc: str, **fields) -> None:
    """Declare a function of ours that derivatives use, and nobody else."""
    value = f"np.{name}({', '.join(inputs.split())})"
    fields = {"table": STEERING, "also": None, "apart": True, "domain": (0.1, 3.0)} | fields
    pointwise(name, inputs, value, *partials, doc=doc, **fields)


def refused(name: str, argument: str, what: str) -> str:
    """The partial derivative of SciPy's `name` by an argument that has none: an error.

    `what` says what the argument is.
    """
    REFUSED[f"no_{name}_{argument}"] = (
        f"tapegrad: scipy.special.{name}() has no derivative with respect to {argument}, {what}, "
        f"which is recorded; give a plain number or array, or tg.stop_gradient({argument})"
    )
    return f"{NO_PARTIAL}{name}_{argument}()"


def probable(p: str, slope: str) -> str:
    """A slope, NaN where p is no probability: SciPy gives numbers there that are no inverses."""
    return f"select(({p} >= 0.0) & ({p} <= 1.0), {slope}, 0.0 / (0.0 * {p}))"


def polynomial(x: str, coefficients) -> str:
    """A polynomial of a name, coefficients in ascending order, by Horner's rule."""
    *rest, total = [repr(float(c)) for c in coefficients]
    for c in reversed(rest):
        total = f"{c} + {x} * ({total})"
    return f"({total})"
