"""Products of adjoints and partial derivatives of the table as statements that append rows."""

from __future__ import annotations

import ast
import contextlib

from ..codegen.sources import ARITHMETIC, expression_in
from ..ops.elementwise import STEERING
from ..ops.elementwise_text import ElementwiseText, renamed
from ..ops.table import TABLE, Pointwise, find


class _Writer(ast.NodeVisitor):
    """Converts the text of a product to statements; `visit` gives names of (row, value)."""

    def __init__(self):
        self.lines: list[str] = []
        self.indent = "        "
        self.count = 0

    def put(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def name(self) -> tuple[str, str]:
        self.count += 1
        return f"i{self.count}", f"v{self.count}"

    def visit_Name(self, node):
        return {"x": ("i", "x"), "y": ("j", "y"), "out": ("k", "out")}[node.id]

    def visit_Constant(self, node):
        return "-1", repr(float(node.value))

    def visit_UnaryOp(self, node):
        if isinstance(node.operand, ast.Constant):
            return "-1", repr(-float(node.operand.value))
        return self.operation("negative", "-{}", [node.operand])

    def visit_BinOp(self, node):
        op = TABLE[ARITHMETIC[type(node.op)]]
        return self.operation(
            op.name, renamed(op.value, {"x": "{}", "y": "{}"}.get), [node.left, node.right]
        )

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "product":
            return self.product(*node.args)
        if isinstance(node.func, ast.Name):
            return self.select(*node.args)
        places = ", ".join(["{}"] * len(node.args))
        return self.operation(node.func.attr, f"np.{node.func.attr}({places})", node.args)

    def operation(self, name, value, nodes):
        pairs = [self.visit(node) for node in nodes]
        i, v = self.name()
        op = 4 * (find(name).code + 1)
        self.put(f"{v} = {value.format(*[x for _, x in pairs])}")
        if len(pairs) == 1:
            self.put(f"{i} = unary({op}, {pairs[0][0]}, {v})")
        else:
            given = ", ".join(text for pair in pairs for text in pair)
            self.put(f"{i} = binary({op}, {given}, {v})")
        return i, v

    def product(self, partial):
        """The adjoint times a partial, or a branch of one that selects."""
        row, value = self.visit(partial)
        i, v = self.name()
        self.put(f"{i}, {v} = product(choices, g_row, g, {row}, {value})")
        return i, v

    def condition(self, node):
        """A condition as a pair: its value is 1 where it holds, else 0."""
        if isinstance(node, ast.Compare):
            parts, (sign,) = (node.left, *node.comparators), node.ops
            pairs = [self.visit(part) for part in parts]
        else:
            sign = node.op
            pairs = [self.condition(part) for part in (node.left, node.right)]
        (i, x), (j, y) = pairs
        name, holds = _CONDITIONS[type(sign)]
        made, value = self.name()
        self.put(f"{value} = select({holds.format(x, y)}, 1.0, 0.0)")
        op = 4 * (STEERING[name].code + 1)
        self.put(f"{made} = test(traced, {op}, {i}, {x}, {j}, {y}, {value})")
        return made, value

    def select(self, condition, *branches):
        """One of two branches: both of them and a choice if the condition is a row."""
        c, holds = self.condition(condition)
        i, v = self.name()
        self.put(f"if {c} >= 0:")
        with self.indented():
            given = ", ".join(text for branch in branches for text in self.visit(branch))
            self.put(f"{i}, {v} = choose({c}, {holds}, {given})")
        for head, branch in zip((f"elif {holds} != 0.0:", "else:"), branches, strict=True):
            self.put(head)
            with self.indented():
                row, value = self.visit(branch)
                self.put(f"{i}, {v} = {row}, {value}")
        return i, v

    @contextlib.contextmanager
    def indented(self):
        self.indent += "    "
        yield
        self.indent = self.indent[:-4]


#: Conditions of partial derivatives: the operation of programs for each, and when it holds.
_CONDITIONS = {
    ast.Eq: ("equal", "{} == {}"),
    ast.NotEq: ("not_equal", "{} != {}"),
    ast.Lt: ("less", "{} < {}"),
    ast.LtE: ("less_equal", "{} <= {}"),
    ast.Gt: ("greater", "{} > {}"),
    ast.GtE: ("greater_equal", "{} >= {}"),
    ast.BitAnd: ("logical_and", "({} != 0.0) & ({} != 0.0)"),
    ast.BitOr: ("logical_or", "({} != 0.0) | ({} != 0.0)"),
}


def cases_of(op: Pointwise) -> str:
    """The branches of `part_of` for the operands of an operation."""
    cases = []
    text = ElementwiseText(op, lambda _: None)
    for j, product in text.formed(op.sloping, "product({})".format).items():
        writer = _Writer()
        row, value = writer.visit(expression_in(product))
        head = f"    if which == {2 * op.code + j}:"
        cases.append("\n".join([head, *writer.lines, f"        return {row}, {value}\n"]))
    return "".join(cases)
