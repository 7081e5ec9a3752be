"""`elementwise`: scalar functions converted to operations like those of the table."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .._core.codegen.layout import OPERANDS
from .._core.ops.symbolic import NumberExpression, OperationLines, declaration
from .._core.ops.table import MOST_CODES, Pointwise, declare, declaring, users_name
from .._core.tape import store
from .._core.tensor.apply import apply
from .ast_reader import ScalarReader

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
