"""Steps on floats that the table does not have: comparisons, conversions."""

from .step_kinds import declare


def _is_finite(code, x: str) -> str:
    return code.let(f"fcmp olt double {code.step('absolute', x)}, {code.constant(float('inf'))}")


def _to_int(code, x: str) -> str:
    size = code.step("absolute", x)
    code.check(code.let(f"fcmp uge double {size}, {code.constant(2.0**63)}"))
    return code.let(f"fptosi double {x} to i64")


def _to_single(code, x: str) -> str:
    return code.let(f"fpext float {code.let(f'fptrunc double {x} to float')} to double")


declare("float_equal", "ff -> b", "x == y", "cheap", native="fcmp oeq double {}, {}")
declare("float_less", "ff -> b", "x < y", "hot cheap", native="fcmp olt double {}, {}")
declare("float_less_equal", "ff -> b", "x <= y", "cheap", native="fcmp ole double {}, {}")
declare("is_finite", "f -> b", "x - x == 0.0", "in_arms", native=_is_finite)
declare("int_to_float", "i -> f", "float(x)", "hot cheap", native="sitofp i64 {} to double")
# rounded to float32
declare(*("to_single", "f -> f", "single(x)", "hot cheap"), native=_to_single, partials=("1.0",))
# towards 0; leaves where it is not finite, or too large
declare(
    *("float_to_int", "f -> i", "int(x)", "stays"),
    holds="-9223372036854775808.0 <= x < 9223372036854775808.0",
    native=_to_int,
)
