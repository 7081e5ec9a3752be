"""Scalar Python functions converted to expressions of the table.

The function is not run: its source is followed, statement by statement, with symbols for its
inputs. Both branches of an `if` are followed and one is selected, so that there are no jumps. What
depends on constants alone is computed, and loops over constants are unrolled.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import dis
import functools
import inspect
import types
import warnings
from typing import Any

import numpy as np

from .._core.codegen.sources import undisturbed
from .._core.ops.symbolic import Lines, Number, Test
from .ast_expressions import ADVICE, PLAIN, Expressions, Unknown

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


class _State:
    """Names while a function is followed, and its result, if it has returned."""

    def __init__(self, names):
        self.names = dict(names)
        self.done: bool | Test = False
        self.result = None

    def copy(self):
        made = _State(self.names)
        made.done, made.result = self.done, self.result
        return made


class Reader(Expressions):
    """A function followed on operands; `lines` gets the results."""

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
        """The result of the function for operands: numbers, tests, constants."""
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
        if isinstance(items, (Number, Test)) or not hasattr(items, "__iter__") or node.orelse:
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
        if all(isinstance(v, (Number, Test, int, float, np.number)) for v in (x, y)):
            return self.lines.select(test, self.number(x, self.tree), self.number(y, self.tree))
        return Unknown()

    def choice(self, test, x, y):
        """`x` where a test holds, else `y`, of tests and truth values."""
        if x is y or x == y:
            return x
        negation = self.lines.negation(test)
        yes = self.all_of([test, x])
        no = self.all_of([negation, y])
        return self.any_of([yes, no])
