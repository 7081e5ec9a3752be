"""The mathematics of kernels: NumPy's functions, powers, special functions."""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import math
import platform
from collections.abc import Callable, Container
from typing import Any, NamedTuple, Protocol

from . import compat, machine_code
from . import machine_types as types
from .intrinsics import Intrinsic, c_function, floats, helper, intrinsic, word_call
from .machine_code import complex_function, special_function
from .process import ir, llvm

# --- Special functions for kernels: SciPy's by their addresses, and our own -----------------------
# A name is declared with the number of its arguments. What calls it in compiled code is made when a
# kernel first names it, since there are many and few are in use at a time.


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
from tapegrad._core.codegen.vector_math import of_complex_number

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


# --- Powers of constant exponents as products, reciprocals and square roots -----------------------
# Whole exponents n take products by repeated squaring, with a relative error of at most n
# roundings. Negative ones begin with the reciprocal, which doubles the error: so nothing overflows
# or underflows on the way unless the result does. Exponents of a whole number and a half have a
# square root as last factor. Zeros, infinities and NaN give what the function of the C library
# gives.


#: The largest exponent that is computed by products.
MOST = 20


class Maker(Protocol):
    """The interface for making expressions by operations of graphs; their `Builder` is one."""

    def step(self, op: str, *operands: Any) -> Any: ...

    def constant(self, number: float) -> Any: ...


def halves(exponent: float) -> int | None:
    """Twice an exponent that is computed by products, None for others."""
    twice = 2.0 * exponent
    return int(twice) if abs(exponent) <= MOST and twice == int(twice) else None


def raised(make: Maker, x: Any, twice: int) -> Any:
    """x to the power of half of `twice`, a result of `halves`."""
    whole, half = divmod(abs(twice), 2)
    if half:
        x = _unsigned(make, x)
    one = make.constant(1.0)
    base = make.step("divide", one, x) if twice < 0 and whole else x
    made = _by_squaring(make, base, whole)
    if not half:
        return one if made is None else made
    root = make.step("sqrt", x)
    if twice < 0:
        return make.step("divide", one if made is None else made, root)
    return root if made is None else make.step("multiply", made, root)


def _by_squaring(make: Maker, x: Any, n: int) -> Any:
    """x to a whole power, None for 0."""
    made = None
    while n:
        if n & 1:
            made = x if made is None else make.step("multiply", made, x)
        n >>= 1
        x = make.step("multiply", x, x) if n else x
    return made


def _unsigned(make: Maker, x: Any) -> Any:
    """x where its root is NaN or a number; 0 and ∞ for −0 and −∞, whose powers have no sign."""
    infinite = make.step("float_equal", x, make.constant(float("-inf")))
    positive = make.step("add", x, make.constant(0.0))
    return make.step("float_select", infinite, make.constant(float("inf")), positive)


# --------------------------------------------------------------------------------------------------
# The mathematics of kernels, under NumPy's names: scalar calls that the loop vectoriser may
# widen.
# Where glibc's libmvec is present each call carries LLVM's `vector-function-abi-variant`, so a loop
# over it becomes calls of the function of four lanes (AVX2) or eight (AVX-512), at most 4 ulp off;
# elsewhere the scalar function of the C library serves. Nothing process-wide is changed. Of float32
# numbers they are the functions of float32, which have twice the lanes.


VECTOR = (
    "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh erf erfc"
).split()
_C_NAME = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "absolute": "fabs",
}
_BINARY = {"arctan2": "atan2", "hypot": "hypot", "power": "pow", "fmod": "fmod"}


def c_name(name: str) -> str | None:
    """The function of the C library with the values of one of ours; None if there is none."""
    return _BINARY.get(name, _C_NAME.get(name, name if name in VECTOR else None))


#: Instruction sets as LLVM calls them, with their letter in names of vector functions; lanes.
_SETS = (("avx2", "d", 4), ("avx512f", "e", 8))
#: By the end of the C name of a function: its numbers, and how many are in the lane of a double.
_LANES = {"": 1, "f": 2}


def _libmvec() -> ctypes.CDLL | None:
    if platform.machine() != "x86_64" or "libmvec" in compat.switched_off():
        return None
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


def vector_functions(sets: Container[str]) -> dict[tuple[str, int, str], list[tuple[str, int]]]:
    """By name, arity and end of the name of a C function: its vector functions and their lanes.

    They are those of some instruction sets of `_SETS`. Code of a library calls all that glibc may
    have; it has others in the places of missing ones.
    """
    library, is_built = _libmvec(), machine_code.made() is not None
    wanted = [(_C_NAME.get(name, name), 1) for name in VECTOR]
    found: dict[tuple[str, int, str], list[tuple[str, int]]] = {}
    wanted += [("pow", 2), ("atan2", 2), ("hypot", 2)]
    for (name, arity), end in itertools.product(wanted, _LANES):
        for instructions, letter, doubles in _SETS:
            lanes = doubles * _LANES[end]
            mangled = f"_ZGV{letter}N{lanes}{'v' * arity}_{name}{end}"
            if instructions in sets and (is_built or hasattr(library, mangled)):
                found.setdefault((name, arity, end), []).append((mangled, lanes))
    return found


@functools.cache
def variants() -> dict[tuple[str, int, str], list[tuple[str, int]]]:
    """The vector functions of this processor, which LLVM finds from now on."""
    if level := machine_code.made():
        return vector_functions(level.vectors)
    features = llvm.get_host_cpu_features()
    found = vector_functions([name for name, *_ in _SETS if features.get(name)])
    try:
        if found:
            llvm.load_library_permanently("libmvec.so.1")
        return found
    except RuntimeError:
        return {}


@functools.cache
def widest() -> int:
    """Lanes of the widest vectors of doubles."""
    found = [n for (*_, end), of_one in variants().items() for _, n in of_one if not end]
    return max(found, default=4)


def _keep_declared(module):
    """Declare the vector functions so that the vectoriser finds them at the time it runs."""
    used = module.globals.get("llvm.compiler.used")
    if used is not None:
        return
    byte_pointer = ir.IntType(8).as_pointer()
    functions = []
    for (_, arity, end), of_one in variants().items():
        for name, lanes in of_one:
            number = ir.FloatType() if end else ir.DoubleType()
            vector = ir.VectorType(number, lanes)
            kind = ir.FunctionType(vector, [vector] * arity)
            functions.append(ir.Function(module, kind, name))
    array = ir.ArrayType(byte_pointer, len(functions))
    used = ir.GlobalVariable(module, array, "llvm.compiler.used")
    used.linkage = "appending"
    used.section = "llvm.metadata"
    used.initializer = ir.Constant(array, [f.bitcast(byte_pointer) for f in functions])


def _emit(builder, name, args):
    """A call of a C function of doubles, or of its twin of float32 numbers."""
    module, end = builder.module, "f" if isinstance(args[0].type, ir.FloatType) else ""
    number, c_name = args[0].type, name + end
    function = module.globals.get(c_name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(number, [number] * len(args)), c_name)
    call = builder.call(function, args)
    marks = ["nounwind", "memory(none)"]
    if of_one := variants().get((name, len(args), end)):
        _keep_declared(module)
        shape = "v" * len(args)
        pairs = [f"_ZGV_LLVM_N{lanes}{shape}_{c_name}({mangled})" for mangled, lanes in of_one]
        marks.append(f'"vector-function-abi-variant"="{",".join(pairs)}"')
    for mark in marks:  # llvmlite's own `add` takes names alone, none with values
        set.add(call.attributes, mark)
    return call


def _of_c(c_name):
    @intrinsic(floats)
    def function(builder, *words):
        return _emit(builder, c_name, words)

    return function


def _llvm(name):
    """A mathematical operation that LLVM knows and vectorises by itself."""

    @intrinsic(floats)
    def function(builder, x):
        return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [x.type]), [x])

    return function


class _Instructions:
    """Makes products, for `raised` and `halves`."""

    def __init__(self, builder, kind):
        self.builder, self.kind = builder, kind

    def constant(self, number):
        return ir.Constant(self.kind, number)

    def step(self, op, *x):
        build = self.builder
        if op == "sqrt":
            return build.call(build.module.declare_intrinsic("llvm.sqrt", [self.kind]), x)
        if op == "float_equal":
            return build.fcmp_ordered("==", *x)
        names = {"add": "fadd", "multiply": "fmul", "divide": "fdiv", "float_select": "select"}
        return getattr(build, names[op])(*x)


@intrinsic(floats)
def power(builder, x, y):
    """x to the power y; by products for many constant exponents."""
    twice = halves(y.constant) if isinstance(y, ir.Constant) else None
    if twice is None:
        return _emit(builder, "pow", (x, y))
    return raised(_Instructions(builder, x.type), x, twice)


sqrt, absolute = _llvm("sqrt"), _llvm("fabs")
floor, ceil, rint, trunc = _llvm("floor"), _llvm("ceil"), _llvm("rint"), _llvm("trunc")
for _name in VECTOR:
    globals()[_name] = _of_c(_C_NAME.get(_name, _name))
arctan2, hypot = _of_c("atan2"), _of_c("hypot")
copysign, fmod = _of_c("copysign"), _of_c("fmod")
_INFINITY, _NAN = float("inf"), float("nan")


@helper
def select(condition, x, y):
    """`x` where `condition` holds, else `y`; both are computed, one is taken."""
    return x if condition else y


@helper
def sign(x):
    return select(x > 0, 1.0, select(x < 0, -1.0, select(x == 0, 0.0, x)))


@helper
def remainder(x, y):
    """`x % y` as NumPy has it: what `fmod` leaves, which is exact, brought to the sign of y."""
    left = fmod(x, y)
    brought = select((y < 0.0) != (left < 0.0), left + y, left)
    return select(left == 0.0, copysign(0.0, y), brought)


@helper
def floor_divide(x, y):
    """`x // y` as NumPy has it: x without its remainder over y is very nearly a whole number."""
    left = fmod(x, y)
    count = (x - left) / y
    count = select((left != 0.0) & ((y < 0.0) != (left < 0.0)), count - 1.0, count)
    whole = floor(count)
    whole = select(count - whole > 0.5, whole + 1.0, whole)
    whole = select(count == 0.0, copysign(0.0, x / y), whole)
    return select(y == 0.0, x / y, whole)


# Of two equal numbers the second is taken, as by NumPy's vectors: zeros have signs.
@helper
def maximum(x, y):
    return select((x > y) | (x != x), x, y)


@helper
def minimum(x, y):
    return select((x < y) | (x != x), x, y)


@helper
def fmax(x, y):
    return select((x > y) | (y != y), x, y)


@helper
def fmin(x, y):
    return select((x < y) | (y != y), x, y)


@helper
def logaddexp(x, y):
    high = maximum(x, y)
    low = minimum(x, y)
    return select(high == low, high + 0.6931471805599453, high + log1p(exp(low - high)))  # noqa: F821


@helper
def sigmoid(x):
    return 1.0 / (1.0 + exp(-x))  # noqa: F821


@helper
def tanh_slope(x, y):
    """1 − y² for y = tanh(x), also where y is ±1."""
    e = exp(-2.0 * absolute(x))  # noqa: F821
    slope = 1.0 - y * y
    return select(slope < 0.001, 4.0 * e / ((1.0 + e) * (1.0 + e)), slope)


@helper
def sigmoid_slope(x, y):
    """y (1 − y) for y = sigmoid(x), also where y is 1."""
    return select(y > 0.9995, exp(-x) * y * y, y * (1.0 - y))  # noqa: F821


@helper
def polygamma(order, x):
    """Derivative `order` ≥ 1 of digamma, for x > 0 after reflection by recurrence.

    (−1)^(n+1) n! Σ (x+k)^−(n+1): terms up to x ≥ 15, then Euler–Maclaurin
    (Abramowitz & Stegun 6.4.10 and 23.1.30).
    """
    n = order
    if n > 170.0:  # n! is infinite
        return _INFINITY if fmod(n, 2.0) == 1.0 else -_INFINITY
    factorial = 1.0
    k = 2.0
    while k <= n:
        factorial *= k
        k += 1.0
    if floor(x) == x and x <= 0.0:
        return _NAN if fmod(n, 2.0) == 0.0 else _INFINITY
    total = 0.0
    while x < 15.0 + n:
        total += power(x, -(n + 1.0))
        x += 1.0
    total += power(x, -n) / n + 0.5 * power(x, -(n + 1.0))
    term = (n + 1.0) * power(x, -(n + 2.0))
    total += term / 12.0
    term *= (n + 2.0) * (n + 3.0) / (x * x)
    total -= term / 720.0
    term *= (n + 4.0) * (n + 5.0) / (x * x)
    total += term / 30240.0
    term *= (n + 6.0) * (n + 7.0) / (x * x)
    total -= term / 1209600.0
    term *= (n + 8.0) * (n + 9.0) / (x * x)
    total += term / 47900160.0
    return total * factorial if fmod(n, 2.0) == 1.0 else -total * factorial


def __getattr__(name: str):
    """Special functions, each made when it is first named."""
    if name.startswith("__"):
        raise AttributeError(name)
    return globals().setdefault(name, special_value(name))
