"""Floor 5: scalar functions of Python's read as expressions of the table.

The function is not run: its text is followed, statement by statement, with numbers that stand for
its inputs. Both branches of an `if` are followed and one is selected, so there are no jumps; what
depends on constants alone is computed on the way, and loops over constants are written out.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import operator
import types

import numpy as np

from .known import function_of
from .ops.table import TABLE
from .reading import Lines, Number, Test, constant, fold
from .tensor.apply import ufunc_of

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
_DEPTH = 30  # of functions that call one another
_MOST_LINES = 20_000


def source_of(function) -> tuple[ast.AST, str]:
    """The syntax tree of a function and the name of its file."""
    code = function.__code__
    try:
        lines, _ = inspect.findsource(function)
    except OSError:
        raise TypeError(
            f"tapegrad.elementwise: the text of {function.__name__} cannot be found; define it in "
            "a file or a notebook, not by exec()"
        ) from None
    found = []
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.Lambda):
            matches = code.co_name == "<lambda>"
            first = node.lineno
        elif isinstance(node, ast.FunctionDef):
            matches = code.co_name == node.name
            first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
        else:
            continue
        if matches and first == code.co_firstlineno:
            found.append(node)
    if len(found) != 1:
        raise TypeError(
            f"tapegrad.elementwise: {len(found)} functions {function.__name__} begin in line "
            f"{code.co_firstlineno} of {code.co_filename}; write each in a line of its own"
        )
    return found[0], code.co_filename


class _State:
    """Names while a function is followed, and whether and what it has returned."""

    def __init__(self, names):
        self.names = dict(names)
        self.done: bool | Test = False
        self.result = None

    def copy(self):
        made = _State(self.names)
        made.done, made.result = self.done, self.result
        return made


class Reader:
    """A function followed on operands; `lines` gets what it computes."""

    def __init__(self, function, lines: Lines, depth: int = 0):
        self.function, self.lines, self.depth = function, lines, depth
        self.tree, self.file = source_of(function)
        free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.around = {**vars(builtins), **function.__globals__}
        for name, cell in free:
            try:
                self.around[name] = cell.cell_contents
            except ValueError:  # not yet bound
                self.around.pop(name, None)

    def run(self, operands):
        """What the function returns for operands: numbers, tests, constants."""
        try:
            bound = inspect.signature(self.function).bind(*operands)
        except TypeError as error:
            raise self.error(self.tree, f"a call does not fit: {error}", "") from None
        bound.apply_defaults()
        state = _State(bound.arguments)
        if isinstance(self.tree, ast.Lambda):
            return self.expression(self.tree.body, state)
        self.block(self.tree.body, state)
        if state.done is not True:
            advice = "end with a return that is always reached"
            raise self.error(self.tree, "it does not return a number on every path", advice)
        return state.result

    def error(self, node, what: str, advice: str) -> TypeError:
        place = f"line {node.lineno} of {self.function.__name__} ({self.file})"
        end = f"; {advice}" if advice else ""
        return TypeError(f"tapegrad.elementwise: {place}: {what}{end}")

    def refuse(self, node, advice: str) -> TypeError:
        text = ast.unparse(node).partition("\n")[0]
        return self.error(node, f"`{text}` cannot be read", advice)

    # --- statements ---------------------------------------------------------------------------

    def block(self, statements, state) -> None:
        for statement in statements:
            if state.done is True:
                return
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is None:
                raise self.refuse(statement, _ADVICE.get(type(statement), _PLAIN))
            method(statement, state)
        if len(self.lines.steps) > _MOST_LINES:
            raise self.error(self.tree, f"more than {_MOST_LINES} steps", "loop less often")

    def _Pass(self, node, state):
        pass

    def _Expr(self, node, state):
        if not isinstance(node.value, ast.Constant):
            raise self.refuse(node, "its value is not used; take it out")

    def _Return(self, node, state):
        value = None if node.value is None else self.expression(node.value, state)
        value = self.number(value, node)
        if state.done:
            value = self.lines.select(state.done, state.result, value)
        state.done, state.result = True, value

    def _Assign(self, node, state):
        value = self.expression(node.value, state)
        for target in node.targets:
            self.bind(target, value, state)

    def _AnnAssign(self, node, state):
        if node.value is not None:
            self.bind(node.target, self.expression(node.value, state), state)

    def _AugAssign(self, node, state):
        if not isinstance(node.target, ast.Name):
            raise self.refuse(node, "only names can be changed")
        before = self._Name(ast.copy_location(ast.Name(node.target.id), node), state)
        value = self.binary(node, before, self.expression(node.value, state))
        self.bind(node.target, value, state)

    def bind(self, target, value, state) -> None:
        if isinstance(target, ast.Name):
            state.names[target.id] = value
            return
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)):
            if len(value) == len(target.elts):
                for part, item in zip(target.elts, value, strict=True):
                    self.bind(part, item, state)
                return
        raise self.refuse(target, "only names and tuples of names can be given a value")

    def _For(self, node, state):
        items = self.expression(node.iter, state)
        if isinstance(items, (Number, Test)) or not hasattr(items, "__iter__") or node.orelse:
            raise self.refuse(node, _ADVICE[ast.While])
        for item in items:
            self.bind(node.target, item, state)
            self.block(node.body, state)

    def _If(self, node, state):
        test = self.test(self.expression(node.test, state), node)
        if not isinstance(test, Test):
            return self.block(node.body if test else node.orelse, state)
        yes, no = state.copy(), state.copy()
        self.block(node.body, yes)
        self.block(node.orelse, no)
        self.merge(test, yes, no, state)

    def merge(self, test, yes, no, state) -> None:
        """Go on after an `if`: where names differ one value is selected."""
        names = {}
        for name in {**yes.names, **no.names}:
            if no.done is True or yes.done is True:
                kept = yes if no.done is True else no
                if name in kept.names:
                    names[name] = kept.names[name]
            elif name in yes.names and name in no.names:
                names[name] = self.one_of(test, yes.names[name], no.names[name])
        state.names = names
        if yes.result is None or no.result is None:
            state.result = no.result if yes.result is None else yes.result
        else:
            state.result = self.lines.select(test, yes.result, no.result)
        state.done = self.choice(test, yes.done, no.done)

    def one_of(self, test, x, y):
        """One of two values of a name; nothing where they are not numbers and differ."""
        if x is y:
            return x
        if isinstance(x, (Test, bool)) and isinstance(y, (Test, bool)):
            return self.choice(test, x, y)
        if all(isinstance(v, (Number, Test, int, float, np.number)) for v in (x, y)):
            return self.lines.select(test, self.number(x, self.tree), self.number(y, self.tree))
        return _Unknown()

    def choice(self, test, x, y):
        """`x` where a test holds, else `y`, of tests and truth values."""
        if x is y or x == y:
            return x
        negation = self.lines.negation(test)
        yes = self.all_of([test, x])
        no = self.all_of([negation, y])
        return self.any_of([yes, no])

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
        raise self.refuse(node, f"a number is wanted here, this is of type {kind}")

    def test(self, value, node):
        """A value as a test, or as True or False where it is constant."""
        if isinstance(value, Test):
            return value
        if isinstance(value, Number):
            return self.lines.test(f"{value} != 0.0")
        return bool(value)

    def expression(self, node, state):
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise self.refuse(node, _ADVICE.get(type(node), _PLAIN))
        return method(node, state)

    def _Constant(self, node, state):
        return node.value

    def _Name(self, node, state):
        if node.id in state.names:
            value = state.names[node.id]
            if not isinstance(value, _Unknown):
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
        """What a function of Python's makes of constants."""
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
            raise self.refuse(node, "`and` and `or` are of comparisons: write x != 0")
        tests = [self.test(value, node) for value in values]
        return self.all_of(tests) if isinstance(node.op, ast.And) else self.any_of(tests)

    def _Compare(self, node, state):
        values = [self.expression(v, state) for v in (node.left, *node.comparators)]
        tests = []
        for kind, x, y in zip(node.ops, values[:-1], values[1:], strict=True):
            if type(kind) not in _COMPARISONS:
                raise self.refuse(node, _PLAIN)
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
        return self.binary(node, self.expression(node.left, state), self.expression(node.right, state))

    def binary(self, node, x, y):
        if type(node.op) not in _OPERATORS:
            raise self.refuse(node, _PLAIN)
        name, function = _OPERATORS[type(node.op)]
        if not any(isinstance(v, (Number, Test)) for v in (x, y)):
            return self._constants(node, function, [x, y])
        if name == "power" and isinstance(y, (int, float)):
            return self.power(self.number(x, node), y)
        x, y = self.number(x, node), self.number(y, node)
        if name == "floor_divide":
            return self.operation("floor", [self.operation("divide", [x, y])])
        return self.operation(name, [x, y])

    def power(self, x, exponent):
        """Small whole powers by products, as a compiler would."""
        if exponent == 0.5:
            return self.operation("sqrt", [x])
        if exponent == 0:
            return constant(1.0)
        if abs(exponent) > 16 or exponent != int(exponent):
            return self.operation("power", [x, constant(exponent)])
        made, n = None, int(abs(exponent))
        while n:
            if n & 1:
                made = x if made is None else self.operation("multiply", [made, x])
            n //= 2
            x = self.operation("square", [x]) if n else x
        return made if exponent > 0 else self.operation("reciprocal", [made])

    def operation(self, op, operands) -> Number:
        """An operation on numbers; constants are computed."""
        if isinstance(op, str):
            folded = fold(TABLE[op], ufunc_of(op), operands)
            if folded is not None:
                return folded
            op = TABLE[op]
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
            return self.operation(name if name in TABLE else known.op, operands)
        if known.body is not None and self.depth < _DEPTH:
            return Reader(known.body, self.lines, self.depth + 1).run(values)
        raise self.refuse(node, known.advice)


class _Unknown:
    """What a name holds after an `if` whose branches gave it things that are not numbers."""


_PLAIN = "write it with arithmetic, comparisons and functions of math or NumPy"
_ADVICE = {
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
