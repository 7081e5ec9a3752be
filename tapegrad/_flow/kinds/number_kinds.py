"""Steps on numbers: constants, integers, floats, truths.

An integer beyond 64 bits, or a divisor of 0, leaves the graph; Python's rounding. Floats have the
operations of the table, too.
"""

from .step_kinds import BOOL, CONSTANT, FLOAT, INT, declare

_SMALLEST = str(-(2**63))


def _checked(name: str):
    """An instruction of LLVM that says whether its result fits."""

    def emit(code, x: str, y: str) -> str:
        if code.leave is None:
            return code.let(f"{name} nsw i64 {x}, {y}")
        full = f"llvm.s{name}.with.overflow.i64"
        code.module.declared[full] = f"declare {{i64, i1}} @{full}(i64, i64)"
        both = code.let(f"call {{i64, i1}} @{full}(i64 {x}, i64 {y})")
        result = code.let(f"extractvalue {{i64, i1}} {both}, 0")
        code.check(code.let(f"extractvalue {{i64, i1}} {both}, 1"))
        return result

    return emit


def _extreme(comparison: str):
    def emit(code, x: str, y: str) -> str:
        takes = code.let(f"icmp {comparison} i64 {x}, {y}")
        return code.let(f"select i1 {takes}, i64 {x}, i64 {y}")

    return emit


def _divided(code, op: str, x: str, y: str) -> tuple[str, str]:
    """Quotient or remainder rounded towards 0, and whether Python rounds to one less."""
    result = code.let(f"s{op} i64 {x}, {y}")
    rest = result if op == "rem" else code.let(f"srem i64 {x}, {y}")
    other_sign = code.let(f"icmp slt i64 {code.let(f'xor i64 {rest}, {y}')}, 0")
    inexact = code.let(f"icmp ne i64 {rest}, 0")
    return result, code.let(f"and i1 {other_sign}, {inexact}")


def _floor_divide(code, x: str, y: str) -> str:
    code.check(code.let(f"icmp eq i64 {y}, 0"))
    smallest, minus = code.let(f"icmp eq i64 {x}, {_SMALLEST}"), code.let(f"icmp eq i64 {y}, -1")
    code.check(code.let(f"and i1 {smallest}, {minus}"))
    quotient, less = _divided(code, "div", x, y)
    return code.let(f"sub i64 {quotient}, {code.let(f'zext i1 {less} to i64')}")


def _remainder(code, x: str, y: str) -> str:
    """The processor cannot divide the smallest integer by −1: over 1 the remainder is 0, too."""
    code.check(code.let(f"icmp eq i64 {y}, 0"))
    y = code.let(f"select i1 {code.let(f'icmp eq i64 {y}, -1')}, i64 1, i64 {y}")
    rest, less = _divided(code, "rem", x, y)
    return code.let(f"add i64 {rest}, {code.let(f'select i1 {less}, i64 {y}, i64 0')}")


def _negative(code, x: str) -> str:
    return _checked("sub")(code, "0", x)


def _absolute(code, x: str) -> str:
    less = code.let(f"icmp slt i64 {x}, 0")
    return code.let(f"select i1 {less}, i64 {_negative(code, x)}, i64 {x}")


def _is_finite(code, x: str) -> str:
    return code.let(f"fcmp olt double {code.step('absolute', x)}, {code.constant(float('inf'))}")


def _to_int(code, x: str) -> str:
    size = code.step("absolute", x)
    code.check(code.let(f"fcmp uge double {size}, {code.constant(2.0**53)}"))
    return code.let(f"fptosi double {x} to i64")


def _to_single(code, x: str) -> str:
    return code.let(f"fpext float {code.let(f'fptrunc double {x} to float')} to double")


def _float(code, number: float) -> str:
    return code.constant(number)


def _word(_code, number: int | bool) -> str:
    return str(number).lower()


#: The constants by the kinds of their values.
CONSTANT_OF = {
    FLOAT: declare("float_const", "-> f", payload=CONSTANT, native=_float),
    INT: declare("int_const", "-> i", payload=CONSTANT, native=_word),
    BOOL: declare("bool_const", "-> b", payload=CONSTANT, native=_word),
}
#: The types of Python of the numbers of each kind.
TYPE_OF: dict[str, type] = {FLOAT: float, INT: int, BOOL: bool}

declare(
    *("int_add", "ii -> i", "x + y", "hot cheap"),
    holds="sum_fits(x, y)",
    native=_checked("add"),
    neutral=0,
)
declare(
    *("int_subtract", "ii -> i", "x - y", "cheap"),
    holds="difference_fits(x, y)",
    native=_checked("sub"),
    neutral_right=0,
    twice=0,
)
declare(
    *("int_multiply", "ii -> i", "x * y", "again"),
    holds="product_fits(x, y)",
    native=_checked("mul"),
    neutral=1,
    absorbing=0,
)
declare(
    *("int_floor_divide", "ii -> i", "x // y", "divides"),
    holds="y != 0 and (y != -1 or x != LEAST)",
    native=_floor_divide,
    neutral_right=1,
)
declare(
    *("int_remainder", "ii -> i", "x % y if y != -1 else 0", "divides"),
    holds="y != 0",
    native=_remainder,
)
declare("int_min", "ii -> i", "min(x, y)", "cheap idempotent", native=_extreme("slt"))
declare("int_max", "ii -> i", "max(x, y)", "cheap idempotent", native=_extreme("sgt"))
declare("int_and", "ii -> i", "x & y", "cheap idempotent", native="and i64 {}, {}")
declare("int_or", "ii -> i", "x | y", "cheap idempotent", native="or i64 {}, {}")
declare("int_xor", "ii -> i", "x ^ y", "cheap", native="xor i64 {}, {}", twice=0)
declare("int_negative", "i -> i", "-x", "again", holds="x != LEAST", native=_negative)
declare("int_absolute", "i -> i", "abs(x)", holds="x != LEAST", native=_absolute)
declare("int_equal", "ii -> b", "x == y", "hot cheap", native="icmp eq i64 {}, {}", twice=True)
declare("int_less", "ii -> b", "x < y", "hot cheap", native="icmp slt i64 {}, {}", twice=False)
declare(
    *("int_less_equal", "ii -> b", "x <= y", "hot cheap"),
    native="icmp sle i64 {}, {}",
    twice=True,
)

declare("float_equal", "ff -> b", "x == y", "cheap", native="fcmp oeq double {}, {}")
declare("float_less", "ff -> b", "x < y", "hot cheap", native="fcmp olt double {}, {}")
declare("float_less_equal", "ff -> b", "x <= y", "cheap", native="fcmp ole double {}, {}")
declare("is_finite", "f -> b", "x - x == 0.0", "in_arms", native=_is_finite)
declare("int_to_float", "i -> f", "float(x)", "hot cheap", native="sitofp i64 {} to double")
# rounded to float32
declare(*("to_single", "f -> f", "single(x)", "hot cheap"), native=_to_single, partials=("1.0",))
# towards 0; leaves where it is not finite, or where a float may stand for another integer
declare(
    *("float_to_int", "f -> i", "int(x)", "stays"),
    holds="-9007199254740992.0 < x < 9007199254740992.0",
    native=_to_int,
)

declare(
    *("bool_and", "bb -> b", "x & y", "cheap idempotent"),
    native="and i1 {}, {}",
    neutral=True,
    absorbing=False,
)
declare(
    *("bool_or", "bb -> b", "x | y", "cheap idempotent"),
    native="or i1 {}, {}",
    neutral=False,
    absorbing=True,
)
declare(
    *("bool_xor", "bb -> b", "x ^ y", "cheap"), native="xor i1 {}, {}", neutral=False, twice=False
)
declare("bool_not", "b -> b", "not x", "cheap negates", native="xor i1 {}, true")
declare("bool_to_int", "b -> i", "x", "cheap", native="zext i1 {} to i64")
