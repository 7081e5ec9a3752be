"""The mathematics of kernels, under NumPy's names: scalar calls that the loop vectoriser may widen.

Where glibc's libmvec is present each call carries LLVM's `vector-function-abi-variant`, so a loop
over it becomes calls of the function of four lanes (AVX2) or eight (AVX-512), at most 4 ulp off;
elsewhere the scalar function of the C library serves. Nothing process-wide is changed. Of float32
numbers they are the functions of float32, which have twice the lanes.
"""

import ctypes
import functools
import itertools
import platform
from collections.abc import Container

from . import compat, levels
from .intrinsics import floats, helper, intrinsic
from .late_imports import ir, llvm
from .power_products import halves, raised
from .special_values import special_value

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
    library, is_built = _libmvec(), levels.made() is not None
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
    if level := levels.made():
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
    """Makes products, for `power_products`."""

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
