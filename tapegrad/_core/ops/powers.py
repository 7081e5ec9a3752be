"""Powers of constant exponents, each an operation of one operand.

Exponents are whole numbers up to 16 and halves between them, of both signs. Compiled code computes
them by products (`codegen.vector_math`), as it does the powers that partial derivatives name.
"""

from __future__ import annotations

from . import elementwise
from .table import POWERS, TABLE, Pointwise, pointwise

assert elementwise  # which declares the others

#: The largest exponent; partial derivatives have exponents that are farther from 0.
MOST = 16
#: The operation for each exponent, of numbers.
OF_NUMBERS: dict[float, Pointwise] = {2.0: TABLE["square"], -1.0: TABLE["reciprocal"]}


def _declare(exponent: float) -> None:
    name = f"power_{exponent:g}".replace("-", "minus_").replace(".", "_")
    pointwise(
        name,
        "x",
        f"np.power(x, {exponent})",
        f"{exponent} * np.power(x, {exponent - 1.0})",
        doc=f"x to the power {exponent:g}",
        graph="PowBackward0",
        table=POWERS,
    )
    OF_NUMBERS[exponent] = POWERS[name]


for _twice in range(-2 * MOST, 2 * MOST + 1):
    if _twice not in (0, 2) and _twice / 2 not in OF_NUMBERS:
        _declare(_twice / 2)
#: The same of arrays, of which NumPy takes square roots: (−0) ** 0.5 is −0, and (−∞) ** 0.5 NaN.
OF_ARRAYS = {**OF_NUMBERS, 0.5: TABLE["sqrt"]}
