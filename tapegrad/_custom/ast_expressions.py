"""Expressions of a scalar function read as expressions of the table.

A value is a number or a test of the lines that are being made, or a constant: any Python object.
What depends on constants alone is computed immediately.
"""

from __future__ import annotations

import ast
import operator
import types

import numpy as np

from .._core.ops.powers import OF_ARRAYS
from .._core.ops.symbolic import Lines, Number, Test, constant, fold
from .._core.ops.table import TABLE, find
from .._core.tensor.apply import ufunc_of
from .known_functions import function_of

_OPERATORS = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("subtract", operator.sub),
    ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", operator.truediv),
    ast.Pow: ("power", operator.pow),
    ast.Mod: ("remainder", operator.mod),
    ast.FloorDiv: ("floor_divide", operator.floordiv),
}
_COMPARISONS = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
}
_DEPTH = 30  # of nested function calls


class Unknown:
    """The value of a name after an `if` whose branches assigned objects that are not numbers."""


PLAIN = "write it with arithmetic, comparisons and functions of math or NumPy"
ADVICE = {
    ast.While: "loops can go over constants only, as `for k in range(3)`: write it out",
    ast.AsyncFor: "loops can go over constants only, as `for k in range(3)`: write it out",
    ast.Raise: "compiled loops raise nothing: return math.nan",
    ast.Try: "compiled loops raise nothing: test with `if` before",
    ast.With: "take it out",
    ast.Assert: "compiled loops raise nothing: return math.nan",
    ast.FunctionDef: "define the function outside and call it",
    ast.Lambda: "define the function outside and call it",
    ast.Import: "import outside",
    ast.ImportFrom: "import outside",
}


class Expressions:
    """The expressions of one function, followed; `lines` gets the results."""

    function: types.FunctionType  # the one that is read
    file = ""
    lines: Lines
    depth = 0  # those of the calling functions
    around: dict  # values of the names around it

    def run(self, operands):
        raise NotImplementedError

    def error(self, node, what: str, advice: str) -> TypeError:
        place = f"line {node.lineno} of {self.function.__name__} ({self.file})"
        end = f"; {advice}" if advice else ""
        return TypeError(f"tapegrad.elementwise: {place}: {what}{end}")

    def refuse(self, node, advice: str) -> TypeError:
        text = ast.unparse(node).partition("\n")[0]
        return self.error(node, f"`{text}` cannot be read", advice)

    # --- values -------------------------------------------------------------------------------

    def number(self, value, node) -> Number:
        """A value as a number."""
        if isinstance(value, Number):
            return value
        if isinstance(value, Test):
            return self.lines.select(value, constant(1.0), constant(0.0))
        if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            return constant(value)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return constant(value)
        kind = type(value).__name__
        raise self.refuse(node, f"a number is expected here, not an object of type {kind}")

    def test(self, value, node):
        """A value as a test, or as True or False where it is constant."""
        if isinstance(value, Test):
            return value
        if isinstance(value, Number):
            return self.lines.test(f"{value} != 0.0")
        return bool(value)

    def all_of(self, tests):
        if any(test is False for test in tests):
            return False
        return self._joined(self.lines.both, [test for test in tests if test is not True], True)

    def any_of(self, tests):
        if any(test is True for test in tests):
            return True
        return self._joined(self.lines.either, [t for t in tests if t is not False], False)

    def _joined(self, join, tests, otherwise):
        if not tests:
            return otherwise
        total = tests[0]
        for test in tests[1:]:
            total = join(total, test)
        return total

    def expression(self, node, state):
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise self.refuse(node, ADVICE.get(type(node), PLAIN))
        return method(node, state)

    def _Constant(self, node, state):
        return node.value

    def _Name(self, node, state):
        if node.id in state.names:
            value = state.names[node.id]
            if not isinstance(value, Unknown):
                return value
        elif node.id in self.function.__code__.co_varnames:
            pass
        elif node.id in self.around:
            return self.around[node.id]
        raise self.error(node, f"`{node.id}` has no value here", "give it one on every path")

    def _Attribute(self, node, state):
        return self._constants(node, getattr, [self.expression(node.value, state), node.attr])

    def _Subscript(self, node, state):
        parts = [self.expression(node.value, state), self.expression(node.slice, state)]
        return self._constants(node, operator.getitem, parts)

    def _constants(self, node, function, parts):
        """The result of a Python function of constants."""
        if any(isinstance(part, (Number, Test)) for part in parts):
            advice = "the function is of one number: it has no parts"
            raise self.refuse(node, advice)
        try:
            return function(*parts)
        except Exception as error:
            raise self.refuse(node, f"{type(error).__name__}: {error}") from None

    def _Tuple(self, node, state):
        return tuple(self.expression(item, state) for item in node.elts)

    _List = _Tuple

    def _NamedExpr(self, node, state):
        value = self.expression(node.value, state)
        self.bind(node.target, value, state)
        return value

    def _IfExp(self, node, state):
        test = self.test(self.expression(node.test, state), node)
        if not isinstance(test, Test):
            return self.expression(node.body if test else node.orelse, state)
        x, y = self.expression(node.body, state), self.expression(node.orelse, state)
        return self.lines.select(test, self.number(x, node), self.number(y, node))

    def _BoolOp(self, node, state):
        values = [self.expression(value, state) for value in node.values]
        if any(isinstance(v, Number) for v in values):
            raise self.refuse(node, "`and` and `or` take comparisons: write x != 0")
        tests = [self.test(value, node) for value in values]
        return self.all_of(tests) if isinstance(node.op, ast.And) else self.any_of(tests)

    def _Compare(self, node, state):
        values = [self.expression(v, state) for v in (node.left, *node.comparators)]
        tests = []
        for kind, x, y in zip(node.ops, values[:-1], values[1:], strict=True):
            if type(kind) not in _COMPARISONS:
                raise self.refuse(node, PLAIN)
            sign, function = _COMPARISONS[type(kind)]
            if not any(isinstance(v, (Number, Test)) for v in (x, y)):
                tests.append(bool(self._constants(node, function, [x, y])))
            elif sign in ("is", "is not"):
                tests.append(sign == "is not")
            else:
                text = f"{self.number(x, node)} {sign} {self.number(y, node)}"
                tests.append(self.lines.test(text))
        return self.all_of(tests)

    def _UnaryOp(self, node, state):
        value = self.expression(node.operand, state)
        if isinstance(node.op, ast.Not):
            test = self.test(value, node)
            return self.lines.negation(test) if isinstance(test, Test) else not test
        if not isinstance(value, (Number, Test)):
            function = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.inv}
            return self._constants(node, function[type(node.op)], [value])
        if isinstance(node.op, ast.Invert):
            raise self.refuse(node, "write `not` for a comparison")
        value = self.number(value, node)
        return self.operation("negative", [value]) if isinstance(node.op, ast.USub) else value

    def _BinOp(self, node, state):
        return self.binary(
            node, self.expression(node.left, state), self.expression(node.right, state)
        )

    def binary(self, node, x, y):
        if type(node.op) not in _OPERATORS:
            raise self.refuse(node, PLAIN)
        name, function = _OPERATORS[type(node.op)]
        if not any(isinstance(v, (Number, Test)) for v in (x, y)):
            return self._constants(node, function, [x, y])
        if name == "power" and isinstance(y, (int, float)):
            return self.power(self.number(x, node), y)
        x, y = self.number(x, node), self.number(y, node)
        return self.operation(name, [x, y])

    def power(self, x, exponent):
        """A power of a constant exponent, by products if there is an operation for that."""
        if exponent == 0:
            return constant(1.0)
        if exponent == 1:
            return x
        if exponent in OF_ARRAYS:
            return self.operation(OF_ARRAYS[exponent].name, [x])
        return self.operation("power", [x, constant(exponent)])

    def operation(self, op, operands) -> Number:
        """An operation on numbers; constants are computed."""
        if isinstance(op, str):
            folded = fold(find(op), ufunc_of(op), operands)
            if folded is not None:
                return folded
            op = find(op)
        return self.lines.apply(op, tuple(operands))

    # --- calls --------------------------------------------------------------------------------

    def _Call(self, node, state):
        function = self.expression(node.func, state)
        if node.keywords:
            raise self.refuse(node, "keyword arguments cannot be read: give them by position")
        if any(isinstance(a, ast.Starred) for a in node.args):
            raise self.refuse(node, "starred arguments cannot be read: give them one by one")
        return self.call(node, function, [self.expression(a, state) for a in node.args])

    def call(self, node, function, values):
        known = function_of(function)
        if not any(isinstance(v, (Number, Test)) for v in values) and known.pure:
            return self._constants(node, function, values)
        if known.fold is not None and values:
            total = self.number(values[0], node)
            for value in values[1:]:
                total = self.operation(known.fold, [total, self.number(value, node)])
            return total
        if known.op is not None:
            if len(values) != len(known.op.inputs):
                raise self.refuse(node, f"{known.op.name} takes {len(known.op.inputs)} numbers")
            name = known.op.name
            if name == "power" and isinstance(values[1], (int, float)):
                return self.power(self.number(values[0], node), values[1])
            operands = [self.number(v, node) for v in values]
            if known.op.test:
                return self.lines.tested(known.op, operands)
            return self.operation(name if name in TABLE else known.op, operands)
        if known.body is not None and self.depth < _DEPTH:
            return type(self)(known.body, self.lines, self.depth + 1).run(values)
        raise self.refuse(node, known.advice)
