"""Derivatives of tanh and sigmoid, accurate where those are nearly ±1 or 1.

There 1 − y² has lost the digits that an exponential of x has. It is seldom needed, and costs as
much as the function itself: kernels first look whether a block has such elements.
"""

from __future__ import annotations

import ast
import functools

from ..codegen.sources import expression_in
from .table import STEERING, pointwise

#: By name, of y: where a shorter expression is as accurate; and that expression.
NEAR = {
    "tanh_slope": ("1.0 - y * y >= 0.001", "1.0 - y * y"),
    "sigmoid_slope": ("y <= 0.9995", "y * (1.0 - y)"),
}
# The partial derivative to y is 0: y is a function of x, whose derivative takes account of it.
pointwise(
    "tanh_slope",
    "x y",
    "np.tanh_slope(x, y)",
    "-2.0 * y * out",
    "0.0",
    doc="1 − y² for y = tanh x",
    table=STEERING,
)
pointwise(
    "sigmoid_slope",
    "x y",
    "np.sigmoid_slope(x, y)",
    "(1.0 - 2.0 * y) * out",
    "0.0",
    doc="y · (1 − y) for y = 1 / (1 + e⁻ˣ)",
    table=STEERING,
)


class _Shorter(ast.NodeTransformer):
    def __init__(self):
        self.tests: list[str] = []

    def visit_Call(self, node):
        self.generic_visit(node)
        name = getattr(node.func, "attr", "")
        if name not in NEAR:
            return node
        y = {"y": ast.unparse(node.args[1])}
        test, short = [_named(text, y) for text in NEAR[name]]
        self.tests.append(f"({test})")
        return expression_in(short)


def _named(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text


@functools.lru_cache(4096)
def shorter(expression: str) -> tuple[str, str]:
    """An expression with the shorter ones in it, and the test that says where it is as accurate.

    The test is empty where nothing can be shortened.
    """
    if not any(name in expression for name in NEAR):
        return expression, ""
    found = _Shorter()
    made = ast.unparse(found.visit(expression_in(expression)))
    return made, " & ".join(dict.fromkeys(found.tests))
