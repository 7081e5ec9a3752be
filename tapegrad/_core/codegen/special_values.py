"""Special functions for kernels: SciPy's by their addresses, and our own.

A name is declared with the number of its arguments. What calls it in compiled code is made when a
kernel first names it, since there are many and few are in use at a time.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from . import machine_types as types
from .external_symbols import complex_function, special_function
from .intrinsics import Intrinsic, c_function, word_call
from .late_imports import ir


class Special(NamedTuple):
    """A function of SciPy's: its name, the numbers that it takes, and those that it writes.

    Of one that writes several, `which` is the result. One of a `whole` first number has code of its
    own for whole numbers, or for no others. One `of_complex` numbers takes both parts of one, and
    writes both.
    """

    name: str
    inputs: int
    outputs: int = 0
    which: int = 0
    whole: bool = False
    of_complex: bool = False


class NoPartial(TypeError):
    """A partial derivative is asked for that does not exist."""


#: Functions of SciPy by our names.
OF_SCIPY: dict[str, Special] = {}
#: Functions of modules of this folder, with the numbers that they take.
OWN_BY_MODULE = {
    "densities": {
        "gamma_density": 2,
        "beta_density": 4,
        "t_density": 2,
        "digamma_difference": 2,
    },
    "gamma_derivatives": {"gammainc_da": 2, "gammainc_daa": 2},
    "beta_derivatives": {
        **{f"betainc_{which}": 4 for which in ("da", "db", "daa", "dab", "dbb")},
        "stdtr_ddf": 2,
        "stdtr_dddf": 2,
    },
    "holomorphic_derivatives": {
        f"complex_{name}_{part}": 3
        for name in ("polygamma", "wofz_slope")
        for part in ("real", "imag")
    },
    "zeta_derivatives": {"zeta_dx": 2, "zeta_dxx": 2},
    "order_derivatives": {
        f"{name}_{by}": 2 for name in ("iv", "ive", "jv", "yv") for by in ("dv", "dvv")
    },
    "hypergeometric_derivatives": {
        **{f"hyp1f1_d{by}": 3 for by in ("a", "b", "aa", "ab", "bb")},
        **{f"hyp2f1_d{by}": 4 for by in ("a", "c", "aa", "ab", "ac", "cc")},
    },
    "bessel_derivatives": {"kv_dv": 2, "kv_dvv": 2, "kve_dv": 2, "kve_dvv": 2},
}
OWN = {name: count for functions in OWN_BY_MODULE.values() for name, count in functions.items()}
#: What to say where a partial derivative is asked for that does not exist, by its name.
REFUSED: dict[str, str] = {}
#: How its expression begins.
NO_PARTIAL = "np.no_"


def declare_scipys(name: str, found: Special) -> None:
    """Let kernels call a function of SciPy's by one of our names."""
    OF_SCIPY[name] = found
    if found.of_complex:
        complex_function(f"tapegrad_{name}", found.name)
        return
    special_function(f"tapegrad_{name}", *found[:3])
    if found.whole:
        special_function(f"tapegrad_{name}_of_whole", *found[:3], whole=True)


for _name in "gamma gammaln digamma i0 i1".split():  # declared as in `elementwise`
    declare_scipys(_name, Special(_name, 1))


def refuse(partial: str) -> None:
    """Raise the error of a partial derivative that does not exist, if its expression says so."""
    if partial.startswith(NO_PARTIAL):
        raise NoPartial(REFUSED[partial[3:-2]])


def special_value(name: str):
    """What computes a special function in compiled code; AttributeError if there is none."""
    if name in REFUSED:
        return _of_doubles(lambda builder: ir.Constant(ir.DoubleType(), math.nan), 0)
    symbol = f"tapegrad_{name}"
    if name in OWN:
        return c_function(symbol, types.float64(*[types.float64] * OWN[name]))
    if name not in OF_SCIPY:
        raise AttributeError(name)
    found = OF_SCIPY[name]
    if found.outputs:
        return _written(symbol, found)
    return _chosen(symbol, found.inputs) if found.whole else _returned(symbol, found.inputs)


def _returned(symbol: str, count: int):
    """A function of so many doubles, which takes one integer more."""

    def made(builder, *given):
        return word_call(builder, symbol, ir.DoubleType(), [*given, _no_dispatch()])

    return _of_doubles(made, count)


def _chosen(symbol: str, count: int):
    """A function that is another one where its first number is whole."""

    def made(builder, *given):
        first, *rest = given
        double = first.type
        with builder.goto_entry_block():
            place = builder.alloca(double)
        small = builder.fcmp_ordered("<", builder.fmul(first, first), ir.Constant(double, 1e18))
        number = builder.select(small, first, ir.Constant(double, 0.5))
        whole = builder.fptosi(number, ir.IntType(64))
        is_whole = builder.fcmp_ordered("==", builder.sitofp(whole, double), first)
        with builder.if_else(is_whole) as (then, otherwise):
            for block, name, words in (
                (then, f"{symbol}_of_whole", [whole, *rest]),
                (otherwise, symbol, given),
            ):
                with block:
                    words = [*words, _no_dispatch()]
                    builder.store(word_call(builder, name, double, words), place)
        return builder.load(place)

    return _of_doubles(made, count)


def _written(symbol: str, found: Special):
    """One of the results that a function writes to places behind its arguments."""

    def made(builder, *given):
        with builder.goto_entry_block():
            places = [builder.alloca(ir.DoubleType()) for _ in range(found.outputs)]
        word_call(builder, symbol, ir.VoidType(), [*given, *places])
        return builder.load(places[found.which])

    return _of_doubles(made, found.inputs)


_OF_PARTS = """
from tapegrad._core.codegen.intrinsics import store_f64
from tapegrad._core.codegen.special_values import of_complex_number

function = of_complex_number("{symbol}")


def parts(x, y, real, imag):
    found = function(complex(x, y))
    store_f64(real, 0, found.real)
    store_f64(imag, 0, found.imag)
"""


def of_complex_number(symbol: str) -> Intrinsic:
    """A function of a complex number and an integer, which C passes as its parts."""
    kind = types.complex128

    def made(builder, z):
        return word_call(builder, symbol, kind.llvm, [z, _no_dispatch()])

    return Intrinsic(kind(kind), made)


def function_of_parts(symbol: str) -> int:
    """The address of a function that takes and writes parts, by one of complex numbers."""
    made = importlib.import_module(f"{__package__}.factory").compile_source
    signatures = {"parts": "void(float64, float64, int64, int64)"}
    return made(_OF_PARTS.format(symbol=symbol), signatures)["parts"]


def _no_dispatch() -> Any:
    """The last argument of SciPy's C functions, a C int."""
    return ir.Constant(ir.IntType(32), 0)


def _of_doubles(made: Callable, count: int) -> Intrinsic:
    """An intrinsic of so many doubles, whose code `made(builder, *words)` writes."""
    return Intrinsic(types.float64(*[types.float64] * count), made)
