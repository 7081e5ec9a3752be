"""`elementwise`: scalar functions, read as expressions, converted to operations like those of the
table.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import difflib
import dis
import functools
import inspect
import math
import operator
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.codegen.layout import OPERANDS
from .._core.codegen.sources import undisturbed
from .._core.ops.powers import OF_ARRAYS
from .._core.ops.symbolic import NumberExpression, OperationLines, Test, constant, declaration, fold
from .._core.ops.table import MOST_CODES, TABLE, Pointwise, declare, declaring, find, users_name
from .._core.tape import store
from .._core.tensor.apply import apply, ufunc_of
from .._core.tensor.registry import declared_by, theirs

# --- ast reader -----------------------------------------------------------------------------------
# Scalar Python functions converted to expressions of the table.


# --- Functions that a scalar function may call, and their meaning in the table --------------------
# Functions that the table lacks are written here as scalar functions of those that it has.


class KnownCall(NamedTuple):
    """The meaning of a call: an operation, an operation over all arguments, a body."""

    op: Pointwise | None = None
    fold: str | None = None
    body: Callable | None = None
    pure: bool = False  # whether it may be called with constants
    advice: str = ""


def _log(x, base=None):
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _where(test, x, y):
    return x if test else y


def _clip(x, low, high):
    if low is None:
        return np.minimum(x, high)
    return np.maximum(x, low) if high is None else np.minimum(np.maximum(x, low), high)


def _and(x, y):
    return x and y


def _or(x, y):
    return x or y


def _not(x):
    return not x


def _itself(x):
    return x


COMPOSITES: dict[Callable, Callable] = {
    math.log: _log,
    np.where: _where,
    np.clip: _clip,
    np.logical_and: _and,
    np.logical_or: _or,
    np.logical_not: _not,
    **dict.fromkeys((float, np.float64, np.positive), _itself),
}
_FOLDS = {min: "minimum", max: "maximum"}
_PURE = frozenset(
    (abs, min, max, round, pow, float, int, bool, len, range, sum, tuple, list, zip, enumerate)
)
_PURE |= {reversed, sorted}


def function_of(function) -> KnownCall:
    """The interpretation of a call of a function."""
    function = theirs(getattr(function, "py_func", function))  # one that Numba has compiled
    return _found(function)._replace(pure=_is_pure(function), advice=_advice(function))


def _found(function) -> KnownCall:
    try:
        hash(function)
    except TypeError:
        return KnownCall()
    if function in _FOLDS:
        return KnownCall(fold=_FOLDS[function])
    if function in COMPOSITES:
        return KnownCall(body=COMPOSITES[function])
    if (op := declared_by(function)) is not None:
        return KnownCall(op=op)
    own = (
        isinstance(function, types.FunctionType)
        and _module_of_function(function)[0] not in _LIBRARIES
    )
    return KnownCall(body=function) if own else KnownCall()


_LIBRARIES = ("tapegrad", "numpy", "scipy", "math")


def _module_of_function(function) -> list[str]:
    return (getattr(function, "__module__", None) or "").split(".")


def _is_pure(function) -> bool:
    is_library = (
        isinstance(function, np.ufunc) or _module_of_function(function)[0] in _LIBRARIES[1:]
    )
    return is_library or any(function is other for other in _PURE)


def _advice(function) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    names = [n for n, op in list(TABLE.items()) if isinstance(op, Pointwise)]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f", for instance {', '.join(near)}" if near else ""
    return (
        f"{name} is not a function of one number that can be read; use those of math or NumPy{hint}"
    )


# --- Expressions of a scalar function read as expressions of the table ----------------------------
# A value is a number or a test of the lines that are being made, or a constant: any Python object.
# What depends on constants alone is computed immediately.


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


class UnknownName:
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
    lines: OperationLines
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

    def number(self, value, node) -> NumberExpression:
        """A value as a number."""
        if isinstance(value, NumberExpression):
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
        if isinstance(value, NumberExpression):
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
            if not isinstance(value, UnknownName):
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
        if any(isinstance(part, (NumberExpression, Test)) for part in parts):
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
        if any(isinstance(v, NumberExpression) for v in values):
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
            if not any(isinstance(v, (NumberExpression, Test)) for v in (x, y)):
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
        if not isinstance(value, (NumberExpression, Test)):
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
        if not any(isinstance(v, (NumberExpression, Test)) for v in (x, y)):
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

    def operation(self, op, operands) -> NumberExpression:
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
        if not any(isinstance(v, (NumberExpression, Test)) for v in values) and known.pure:
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


# --- Scalar Python functions converted to expressions of the table --------------------------------
# The function is not run: its source is followed, statement by statement, with symbols for its
# inputs. Both branches of an `if` are followed and one is selected, so that there are no jumps.
# What depends on constants alone is computed, and loops over constants are unrolled.


_MOST_LINES = 20_000


@functools.lru_cache(8)
def _parsed(text: str, flags: int) -> tuple[ast.Module, list[types.CodeType]]:
    """The syntax tree of a text, and the code of all its functions."""
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as in notebooks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were issued at the import
        only = flags | ast.PyCF_ONLY_AST
        tree: Any = undisturbed(lambda: compile(text, "", "exec", only, True))
        codes: list = [compile(tree, "", "exec", flags, True)]
    for code in codes:
        codes += filter(inspect.iscode, code.co_consts)
    return tree, codes


def _module_of(function) -> ast.Module:
    """The syntax tree of a function's file, which must be what the function was compiled from."""
    code = function.__code__
    features = [getattr(__future__, name) for name in __future__.all_feature_names]
    flags = sum({one.compiler_flag for one in features if code.co_flags & one.compiler_flag})
    with contextlib.suppress(OSError, SyntaxError):
        tree, codes = _parsed("".join(inspect.findsource(function)[0]), flags)
        if code in codes:
            return tree
    raise TypeError(
        f"tapegrad.elementwise: the source of {function.__name__} cannot be found in "
        f"{code.co_filename}; define it in a file or a notebook, not by exec(), and reload a "
        "module whose file has changed"
    )


def source_of(function) -> tuple[ast.AST, str]:
    """The syntax tree of a function and the name of its file."""
    code, found = function.__code__, []
    for node in ast.walk(_module_of(function)):
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
    if len(found) > 1:
        found = [node for node in found if _holds(node, code)]
    if len(found) != 1:
        raise TypeError(
            f"tapegrad.elementwise: {len(found)} functions {function.__name__} begin in line "
            f"{code.co_firstlineno} of {code.co_filename}; write each on its own line"
        )
    return found[0], code.co_filename


def _holds(node, code) -> bool:
    """Whether the body of one of several functions in a line is that of compiled code."""
    if not isinstance(node, ast.Lambda):
        return False
    if not hasattr(code, "co_positions"):  # Python 3.10
        made = compile(ast.Expression(node), code.co_filename, "eval").co_consts
        return _instructions(next(filter(inspect.iscode, made))) == _instructions(code)
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    # Instructions without source are in column 0.
    places = [(line, column) for line, _, column, _ in code.co_positions() if column]
    return all(start <= place < end for place in places)


def _instructions(code) -> list:
    """Bytecode; names are the same, wherever they are looked up."""
    return [(i.opname.replace("DEREF", "GLOBAL"), i.argval) for i in dis.get_instructions(code)]


class _FollowedState:
    """Names while a function is followed, and its result, if it has returned."""

    def __init__(self, names):
        self.names = dict(names)
        self.done: bool | Test = False
        self.result = None

    def copy(self):
        made = _FollowedState(self.names)
        made.done, made.result = self.done, self.result
        return made


class ScalarReader(Expressions):
    """A function followed on operands; `lines` gets the results."""

    def __init__(self, function, lines: OperationLines, depth: int = 0):
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
        """The result of the function for operands: numbers, tests, constants."""
        try:
            bound = inspect.signature(self.function).bind(*operands)
        except TypeError as error:
            raise self.error(self.tree, f"a call does not fit: {error}", "") from None
        bound.apply_defaults()
        state = _FollowedState(bound.arguments)
        if isinstance(self.tree, ast.Lambda):
            return self.expression(self.tree.body, state)
        self.block(self.tree.body, state)
        if state.done is not True:
            advice = "end with a return that is always reached"
            raise self.error(self.tree, "it does not return a number on every path", advice)
        return state.result

    # --- statements ---------------------------------------------------------------------------

    def block(self, statements, state) -> None:
        for statement in statements:
            if state.done is True:
                return
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is None:
                raise self.refuse(statement, ADVICE.get(type(statement), PLAIN))
            method(statement, state)
        if len(self.lines.steps) > _MOST_LINES:
            raise self.error(self.tree, f"more than {_MOST_LINES} steps", "loop less often")

    def _Pass(self, node, state):
        pass

    def _Expr(self, node, state):
        if not isinstance(node.value, ast.Constant):
            raise self.refuse(node, "its value is not used; remove it")

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
        raise self.refuse(target, "only names and tuples of names can be assigned")

    def _For(self, node, state):
        items = self.expression(node.iter, state)
        if (
            isinstance(items, (NumberExpression, Test))
            or not hasattr(items, "__iter__")
            or node.orelse
        ):
            raise self.refuse(node, ADVICE[ast.While])
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
        if all(isinstance(v, (NumberExpression, Test, int, float, np.number)) for v in (x, y)):
            return self.lines.select(test, self.number(x, self.tree), self.number(y, self.tree))
        return UnknownName()

    def choice(self, test, x, y):
        """`x` where a test holds, else `y`, of tests and truth values."""
        if x is y or x == y:
            return x
        negation = self.lines.negation(test)
        yes = self.all_of([test, x])
        no = self.all_of([negation, y])
        return self.any_of([yes, no])


# --- elementwise ----------------------------------------------------------------------------------
# `elementwise`: scalar functions converted to operations like those of the table.

_known: dict[tuple, Pointwise] = {}  # the content of an operation → the operation


class ElementwiseOperation:
    """An operation made of a scalar function by `tg.elementwise`; called with anything."""

    def __init__(
        self,
        name: str,
        op: Pointwise,
        names: tuple[str, ...],
        defaults: dict[str, Any],
        doc: str | None,
    ):
        self.declaration = op
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self._names, self._defaults = names, defaults
        kind, none = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        self.__signature__: inspect.Signature = inspect.Signature(
            [inspect.Parameter(name, kind, default=defaults.get(name, none)) for name in names]
        )

    def __call__(self, *operands: Any, **named: Any) -> Any:
        if named or len(operands) != len(self._names):
            try:
                bound = self.__signature__.bind(*operands, **named)
            except TypeError as error:
                raise TypeError(f"tapegrad.{self.__name__}: {error}") from None
            bound.apply_defaults()
            operands = bound.args
        return apply(self.declaration.name, *operands)

    def __repr__(self) -> str:
        return f"<tapegrad operation {self.__name__}({', '.join(self._names)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        """The operation itself travels, not the function: another process needs no source."""
        op = self.declaration
        content = (self.__name__, len(op.inputs), op.value, op.partials, op.steps)
        return operation_of, (content, self._names, self._defaults, self.__doc__)


def operation_of(content, names, defaults, doc):
    """The operation that a pickle, or a function read just now, describes."""
    return ElementwiseOperation(content[0], _declared(*content), names, defaults, doc)


# Pickles name it so, wherever the code moves.
operation_of.__module__, operation_of.__qualname__ = "tapegrad", "_operation_of"


def elementwise(function=None, *, partials=None):
    """Turn a scalar function into an element-wise operation with derivatives of any order.

    The source of the function is read, and the function is not run: it becomes one compiled loop
    and one row of the tape, and its derivative is found by the chain rule. The operation broadcasts
    and treats exceptional values as NumPy does: 1 / 0 is inf.

    Parameters
    ----------
    function : callable
        A function of one to 8 numbers that returns a number. It may use arithmetic, comparisons,
        conditional expressions, `if`, assignments, loops over constants, the functions of `math`,
        NumPy and `scipy.special` that are in the table of operations, and functions of the same
        kind. Names from outside the function are constants with their values at declaration.
    partials : list of callables, optional
        The partial derivatives, one function per input, which replace the derived ones. Each takes
        the inputs and, if it has one more parameter, the value of `function`.

    Returns
    -------
    callable
        The operation. It takes tensors, arrays and numbers, and returns a tensor or, for plain
        arguments, an array or number; the dtype is float32 if all operands are float32. Without
        `function`, a decorator.

    Raises
    ------
    TypeError
        If the function cannot be read; the message names the line. Also if its file has changed
        since the function was compiled.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> @tg.elementwise
    ... def huber(x, d):
    ...     return 0.5 * x * x if abs(x) < d else d * (abs(x) - 0.5 * d)
    >>> huber(np.array([-0.5, 3.0]), 1.0)
    array([0.125, 2.5  ])
    >>> tg.grad(lambda x: np.sum(huber(x, 1.0)))(np.array([-0.5, 3.0]))
    array([-0.5,  1. ])
    """
    if function is None:
        return functools.partial(elementwise, partials=partials)
    function = getattr(function, "py_func", function)  # one that Numba has compiled
    if not inspect.isfunction(function):
        raise TypeError(
            f"tapegrad.elementwise: the function is of type {type(function).__name__}; give one "
            "that is written in Python with def or lambda"
        )
    names, defaults = _inputs_of(function)
    content = _content(function, names, partials)
    return operation_of(content, names, defaults, inspect.getdoc(function))


def _inputs_of(function):
    """Names of the inputs, and the values of those that may be left out."""
    parameters = _parameters(function)
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    if not plain or not 1 <= len(parameters) <= OPERANDS:
        raise TypeError(
            f"tapegrad.elementwise: {function.__name__}{inspect.signature(function)} must have 1 "
            f"to {OPERANDS} plain parameters; put several values in constants around it"
        )
    names = tuple(p.name for p in parameters)
    return names, {p.name: p.default for p in parameters if p.default is not p.empty}


def _content(function, names, given):
    """Name, number of inputs, value, partials and steps of the operation of a function."""
    lines = OperationLines()
    inputs = [NumberExpression(f"a{k}") for k in range(len(names))]
    reader = ScalarReader(function, lines)
    out = reader.number(reader.run(inputs), reader.tree)
    if given is None:
        partials = lines.partials(out, inputs)
    else:
        partials = _given_partials(reader, given, inputs, out)
    name = function.__name__ if function.__name__.isidentifier() else "elementwise"
    return (name, len(names), *declaration(lines, out, partials))


def _given_partials(reader, given, inputs, out):
    if len(given) != len(inputs):
        raise TypeError(
            f"tapegrad.elementwise: {reader.function.__name__} has {len(inputs)} inputs, partials= "
            f"has {len(given)} functions; give one for each input"
        )
    found = []
    for partial in given:
        code = getattr(partial, "py_func", partial)
        has_value = inspect.isfunction(code) and len(_parameters(code)) > len(inputs)
        result = reader.call(reader.tree, partial, [*inputs, out] if has_value else inputs)
        found.append(str(reader.number(result, reader.tree)))
    return found


def _parameters(function):
    return inspect.signature(function).parameters.values()


def _declared(name, count, value, partials, steps) -> Pointwise:
    """The operation of this content: the one that is there, or a new one."""
    content = (name, count, value, partials, steps)
    with declaring:
        if content in _known:
            return _known[content]
        inputs = tuple(f"a{k}" for k in range(count))
        called = users_name(name)
        text = f"{called}, an operation of a user's"

        def make(code):
            domain = ((-2.0, 2.0),) * count
            fields = (called, inputs, value, partials, text, domain, "", "", code, steps)
            return Pointwise(*fields, apart=True)

        op = declare(make)
        if op is None:
            raise RuntimeError(
                f"tapegrad.elementwise: {MOST_CODES - 1} operations are declared; declare each "
                "once, outside loops, and pass what changes as an input"
            )
        store.enter(op)
        _known[content] = op
        return op
