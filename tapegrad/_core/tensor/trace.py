"""Values without a derivative that a computation depends on, and derivatives that are refused."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..codegen.layout import ARRAY
from ..ops import call_rows
from ..tape.tape import Reader, needed
from ..tape.workspace import dependence_of
from . import callers
from . import runtime as rt
from .tensor_classes import ComplexTensor, Tensor
from .values import array_of, is_recorded, is_tensor, tensor_of, value_of, wrap

# --- Values without a derivative that a computation depends on: masks, indices, booleans ----------
# Ordinarily they are plain arrays. While a program is traced they are rows too, so that it computes
# them again; and what Python learns from a value is noted, so that the program can check it.


COMPUTED = ARRAY + call_rows.COMPUTED.code
#: Functions of ours that `steered` is given, by the names that they have in files.
NAMED: dict[str, Callable] = {}
#: Functions that give what one of ours does for all elements of a batch, by that one: an argument
#: has them along a first axis where the keyword `mapped`, a tuple, is True.
OF_EACH: dict[Callable, Callable] = {}
#: The reason not to trace what `sees_old_values`.
SHARED = (
    "an array is written after detach(), whose result shares its memory and is read later; detach "
    "a copy() of it"
)
#: Arrays of more elements are not guarded when Python has seen them.
MOST_GUARDS = 64


def named(name: str):
    """Give a function a name in files, which stays when the function moves."""

    def enter(function):
        if name in NAMED:
            raise ValueError(f"two functions have the name {name} in files")
        NAMED[name] = function
        return function

    return enter


def of_each(one: Callable, name: str):
    """Let a function be what `one` is for all elements of a batch, under a name in files."""

    def enter(function):
        OF_EACH[one] = function
        return named(name)(function)

    return enter


@dataclasses.dataclass
class NumpyCall:
    """A call of a NumPy function: `arguments` are numbers of operands in the row, or constants."""

    function: Callable
    arguments: list[tuple[bool, Any]]
    keywords: dict

    def bound(self) -> Callable:
        """The function with its keywords."""
        return functools.partial(self.function, **self.keywords) if self.keywords else self.function


@dataclasses.dataclass
class Guard:
    """A value that Python has read: the element of a tensor at a flat position.

    `at` is the number of a row recorded then, `place` the user's line, `how` what read it there.
    """

    tensor: Any
    position: int
    value: float
    at: int
    place: Any
    how: str

    def __str__(self) -> str:
        for file, line, _ in self.place:
            return f"{file}:{line} ({self.how})"
        return self.how


class CustomCall(Protocol):
    """A call of a user's operation with an adjoint of its own, as programs repeat it.

    `name` says what it calls. Operands are those that the trace has recorded, as arrays.
    """

    name: str
    #: Whether operands and the array are read for adjoints: then they stay where they are.
    needs_values: bool = False
    #: Whether graphs compute the same in much less time than programs are made in.
    is_in_graphs: bool = False

    def value(self, operands: list[np.ndarray]) -> tuple[np.ndarray | None, Any]:
        """The array of the row for other operands, and what `adjoints` gets of this call.

        None instead of an array if the results have other shapes or dtypes than recorded.
        """

    def adjoints(self, held: Any, g: np.ndarray) -> list[np.ndarray | None]:
        """The adjoints of the operands from that of the array, None for those without."""

    def held(self, operands: list[np.ndarray], array: np.ndarray) -> Any:
        """What `adjoints` gets of a call that compiled code has made, if it `needs_values`."""

    def table(self, operands: list, out: Any, wanted: list[bool]) -> np.ndarray | None:
        """Words by which compiled code makes the call, with views of a step; see `custom_kernels`.

        None while there are none. `wanted` says which operands have adjoints.
        """
        return None

    def left(self) -> None:
        """Compiled code has left a call to Python, which has made it."""


class Trace:
    """The state of a trace in addition to its rows; `refusal` says why it cannot be a program."""

    def __init__(self, place: Callable):
        self.guards: list[Guard] = []
        self.held: list = []  # tensors whose rows must stay
        self.moments = 0  # rows that only mark a time
        self.required: list = []  # calls that a program makes in any case, since they may raise
        self.steering: set[int] = set()  # rows of values without derivative
        #: Rows of arguments that are plain values where nothing is traced, and the types of their
        #: elements, or their own if they are numbers (see `plain_data`).
        self.data: dict[int, type] = {}
        self.has_keys = False  # whether data have been keys
        self.is_exact = False  # whether numbers of other types are no data for the program
        self.detached: set[int] = set()  # rows of them that share memory if nothing is traced
        self.truths: set[int] = set()  # rows of comparisons of Python numbers
        #: Memory that detached tensors share if nothing is traced, their rows, which are None where
        #: they share it here, too, and a row of that time.
        self.shared: list[tuple[np.ndarray, int | None, int]] = []
        #: Calls of operations that have adjoints of the user's, by row.
        self.custom: dict[int, CustomCall] = {}
        #: Buffers, by row, and their contents before a recorded write made them rows.
        self.originals: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        #: Constants of rows that are copies, by id, and the arrays that they are copies of, if that
        #: is asked for.
        self.copies: dict[int, tuple[np.ndarray, np.ndarray]] | None = None
        self.refusal: str | None = None
        self.is_faithful = True  # whether the call gives what it would give without a trace
        #: While derivatives are recorded: whether products of 0 and infinity are looked for.
        self.careful: bool | None = None
        self._place = place

    def refuse(self, reason: str, *, faithful: bool = False) -> None:
        """Note that the computation cannot be repeated; the first reason counts.

        The function is called again without a trace, unless all refusals are `faithful`: the call
        gives what it would give then, and has an effect that should not occur twice.
        """
        self.refusal = self.refusal or reason
        self.is_faithful = self.is_faithful and faithful

    def repeat(self, row, call: CustomCall) -> None:
        """Let a program repeat the call of a row, also where nothing reads the results."""
        self.custom[row._id] = call
        self.required.append(row)

    def share(self, array: np.ndarray, row: int | None) -> None:
        """Note that memory would be shared by a detached tensor, which has a row of its own."""
        self.shared.append((array, row, self.now() if row is None else row))

    def sees_old_values(self, results: list) -> bool:
        """Whether a detached tensor is read after the memory was written that it would share."""
        if not self.shared:
            return False
        reader = Reader()
        rows = {row for _, row, _ in self.shared if row is not None}
        last: dict[int | None, float] = dict(reader.last_reads(rows).items() if rows else ())
        # values that Python has learned, results, and memory that is shared are read at any time
        always = [guard.tensor._id for guard in self.guards] + [one._id for one in results]
        last.update(dict.fromkeys([None, *always], math.inf))
        for array, row, since in self.shared:
            written = reader.written_since(reader.time(since) + 1) if row in last else {}
            for buffer, write in written.items():
                base = reader.base(buffer) if reader.time(write) < last[row] else None
                if base is not None and np.may_share_memory(array, base):
                    return True
        return False

    def by_rule(self, rule: Callable, *arguments, **static):
        """The result of a rule: a program computes only the parts of it that are read."""
        count = len(self.required)
        found = rule(*arguments, **static)
        del self.required[count:]
        return found

    def now(self) -> int:
        """A new row that stays: what is recorded from now on comes after it."""
        self.moments += 1
        self.held.append(rt.scalar_leaf(0.0))
        return self.held[-1]._id

    def learn(self, tensor, what: str) -> None:
        """Python learns the value of a recorded tensor."""
        values = np.asarray(value_of(tensor))
        if values.size > MOST_GUARDS:
            self.refuse(f"{what} reads an array of shape {values.shape}")
            return
        if values.dtype.kind == "f" and (values == 0.0).any():
            self.learn(steered(np.signbit, tensor), what)  # 0.0 and −0.0 are equal
        self.held.append(tensor)
        at, place = self.now(), self._place()
        for position, value in enumerate(values.ravel().tolist()):
            self.guards.append(Guard(tensor, position, float(value), at, place, what))

    def learn_key(self, tensor) -> None:
        """Python learns the value of a number to find it in a dict or a set, and may keep it."""
        self.learn(tensor, "hash()")
        self.has_keys = True


def learned(tensor, what: str) -> bool:
    """Note that Python reads a tensor's value; returns whether a trace is active."""
    trace = rt.trace()
    if trace is None:
        return False
    if is_recorded(tensor):
        trace.learn(tensor, what)
    return True


def refuse(reason: str, *, faithful: bool = False) -> None:
    """Note in a trace that the computation cannot be repeated; see `Trace.refuse`."""
    trace = rt.trace()
    if trace is not None:
        trace.refuse(reason, faithful=faithful)


def note_copy(copy: np.ndarray, original: np.ndarray) -> np.ndarray:
    """Note in a trace of what array a constant of a row is a copy; returns the copy."""
    trace = rt.trace()
    if trace is not None and trace.copies is not None:
        trace.copies[id(copy)] = copy, original
    return copy


def is_steering(tensor) -> bool:
    """Whether a recorded tensor has no derivative: a mask, indices, something detached."""
    trace = rt.trace()
    if trace is None:
        return False
    return tensor._id in trace.steering or np.asarray(value_of(tensor)).dtype.kind != "f"


def note_equal(answer) -> None:
    """Note where code finds a recorded array equal to another one, as one from an earlier call."""
    if rt.in_transform() and np.all(value_of(answer)):
        frame = callers.users_frame()
        if frame is not None and "__name__" in frame.f_globals:  # no text of a derivative
            rt.found_equal[threading.get_ident()] = callers.users_line()


def steered(function, /, *operands, **keywords):
    """`function` of values: what NumPy gives; while a program is traced, a recorded tensor of it.

    Tensors among the operands are given as arrays.
    """
    value = function(*[_value(operand) for operand in operands], **keywords)
    trace = rt.trace()
    if trace is not None and any([type(operand) is rt.ComplexTensor for operand in operands]):
        trace.refuse(f"{name_of(function)} takes complex numbers")
        return value
    if trace is None or not any([is_recorded(operand) for operand in operands]):
        return value
    if function in _OF_OWN_SHAPE:
        shapes = steered(_shapes, *operands, function=function, keywords=keywords)
        trace.learn(shapes, f"the shape of {name_of(function)}()")
    if isinstance(value, tuple):
        return tuple(
            steered(_part, *operands, function=function, number=k, keywords=keywords)
            for k in range(len(value))
        )
    value = np.asarray(value)
    if value.dtype.kind not in "biuf":
        trace.refuse(f"{name_of(function)} gives {value.dtype}")
        return value
    return _row(NumpyCall(function, [], keywords), np.array(value), operands)


def _value(operand):
    return array_of(operand) if type(operand) is rt.ComplexTensor else value_of(operand)


def name_of(function) -> str:
    return getattr(function, "__name__", str(function))


#: Functions whose results have shapes that depend on values.
_OF_OWN_SHAPE = {np.nonzero, np.flatnonzero, np.argwhere, np.unique, np.extract}


def of_own_shape(function):
    """Note that the results of a function have shapes that depend on values."""
    _OF_OWN_SHAPE.add(function)
    return function


@named("steering.shapes")
def _shapes(*values, function, keywords):
    """The shapes of all results of a function, one after the other."""
    made = function(*values, **keywords)
    parts = made if isinstance(made, tuple) else (made,)
    return np.array([n for part in parts for n in np.shape(part)])


@named("steering.part")
def _part(*values, function, number, keywords):
    """One result of a function that has several."""
    return function(*values, **keywords)[number]


def _row(call: NumpyCall, value: np.ndarray, operands):
    """Append the row of a call."""
    recorded: list = []
    for operand in operands:
        if is_tensor(operand) and is_recorded(operand):
            call.arguments.append((True, len(recorded)))
            recorded.append(operand)
        else:
            plain = value_of(operand)
            if np.iscomplexobj(plain):
                refuse(f"{name_of(call.function)} takes complex numbers")
            kept = plain.copy() if isinstance(plain, np.ndarray) else plain
            call.arguments.append((False, kept))
    made = rt.row(COMPUTED, value, call, *recorded)
    trace = rt.trace()
    trace.held.append(made)
    trace.steering.add(made._id)
    return made


def steering_tensor(function, *operands, **keywords):
    """As `steered`, but always a tensor."""
    value = steered(function, *operands, **keywords)
    if isinstance(value, tuple):
        return tuple([tensor_of(part) for part in value])
    return tensor_of(value)


def tensor_like(value, *operands):
    """The result of `steered` as a tensor if an operand is one."""
    kinds = (rt.Tensor, rt.ComplexTensor)
    if is_tensor(value) or not any([isinstance(operand, kinds) for operand in operands]):
        return value
    return wrap(value)


def fixed(operand, what: str):
    """The value of an operand that a program cannot change, such as a number of repeats."""
    trace = rt.trace()
    if trace is not None and is_recorded(operand):
        trace.learn(operand, what)
    return value_of(operand)


# --------------------------------------------------------------------------------------------------
# Refused derivatives, which transforms remember: an error that a function catches is raised
# again.
# `try: return math.exp(x)` followed by `except OverflowError: return limit`, or `except Exception`,
# is how careful code looks. If it caught the refusal, the result would have a wrong derivative.


class DerivativeLost(TypeError):
    """The error where the derivative of a value would be lost.

    Inside a transform (`grad` and the others, `vmap`, `compile`) it cannot be caught for good: if
    the function goes on after it, the transform raises it at its end. It is a TypeError for the
    caller of the transform.

    Examples
    --------
    >>> import math
    >>> import tapegrad as tg
    >>> stored = [math.exp]  # called by its name, it would keep the derivative
    >>> try:
    ...     tg.grad(lambda x: stored[0](x))(1.0)
    ... except tg.DerivativeLost as error:
    ...     print(str(error)[:53])
    tapegrad: float() of a recorded tensor loses its deri
    """

    __module__ = "tapegrad"


def lost_derivative(text: str, *operands) -> DerivativeLost:
    """The error, which every transform that differentiates an operand remembers.

    Operands are tensors, also in lists, tuples and dicts; others are ignored. A trace in which it
    is caught is no recording of the function: data are plain values where nothing is recorded.
    """
    error = DerivativeLost(text)
    refuse(f"recorded it raises DerivativeLost: {text}")
    inputs = rt.differentiated()
    if inputs and rt.is_recording():
        numbers = [one._id for one in _tensors(operands) if is_recorded(one)]
        rt.remember(error, _reached(numbers, inputs))
    return error


def _tensors(tree):
    """The real tensors in nested lists, tuples and dicts."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, ComplexTensor):
        yield from (tree._re, tree._im)
    elif isinstance(tree, (list, tuple, dict)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _tensors(item)


def is_differentiated(tensor) -> bool:
    """Whether an active transform differentiates with respect to an ancestor of a tensor.

    As in PyTorch, results of a tensor of the user, made with `requires_grad=True`, are not refused.
    """
    inputs = rt.differentiated()
    if not inputs or not is_recorded(tensor) or not rt.is_recording() or is_steering(tensor):
        return False
    return tensor._id in inputs or bool(_reached([tensor._id], inputs))


def _reached(numbers: list[int], inputs: set[int]) -> set[int]:
    """Those of the inputs on which rows depend with a derivative."""
    if not numbers:
        return set()
    marks, _ = dependence_of(numbers)
    found = {one for one in inputs if marks.rows[one]}
    if not found or rt.trace() is None:
        return found
    steering = rt.trace().steering  # no derivative passes masks and detached values
    return found.intersection(needed(Reader(), numbers, steering))
