"""Parts of operations on whole arrays: with kernels, with rules, in Python, of users."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen import elements, layout
from ..._core.codegen.elements import ITEM
from ..._core.codegen.factory import compile_source, once
from ..._core.codegen.sweep_frame import ADJOINT_HEADER
from ..._core.ops.table import BY_CODE, Site, Structural
from ..._core.sweep.kernels import compile_structural
from ..._core.tape.sweeps import add_to_view
from ..._core.tensor.indexing import OUTSIDE
from ..._core.tensor.runtime import silence
from ..._core.tensor.values import value_of
from ..._derivatives.recorded_reverse import parts_of, summed_to
from ..ir.kernel_step import Computed, Custom, Kernel
from ..ir.steps import ARENA, DOUBLE, View
from . import custom_kernels, rule_kernels
from . import structural_kernels as kernels
from .moves import move_words, words
from .parts import NO_BASES, SIGNATURE, Bases, Part, Wanted, part_of
from .run_layout import (
    FINISHED,
    GUARD_FAILED,
    RAISED,
    REFUSED,
    RUN_ADJOINT_BASES,
    RUN_ANSWER,
    RUN_FAILED,
    RUN_REFUSED,
    RUN_VALUE_BASES,
)
from .structural_kernels import K_COPY, K_REVERSE

# --- structural -----------------------------------------------------------------------------------
# Parts of structural operations: the memory of a sweep of one row, in which their kernels run.

ARRAY_BYTES = 72
#: What dtypes are in such a memory, by the bytes of an element; that of integers is 0.
_DTYPES = {4: 1, 8: 2}


@once
def compiled_kernels() -> dict[str, int]:
    return compile_source(kernels.TEXT, dict.fromkeys(kernels.EXPORTS, SIGNATURE))


@functools.cache
def kernels_of(code: int, item: int) -> tuple[int, int]:
    """Addresses of the kernels of an operation, forward and reverse, for a width of elements."""
    op = BY_CODE[code]
    reverse = compile_structural(op, width=item) if op.adjoint or op.vjp else 0
    return compile_structural(op, op.value_kernel, item), reverse


class _Memory:
    """Words that grow, and which of them are addresses in them or in a base."""

    def __init__(self):
        self.words: list[int] = []
        self.inside: list[int] = []
        self.outside: list[tuple[int, int]] = []

    def add(self, *items: int) -> int:
        """Add words; returns the byte offset of the first."""
        at = 8 * len(self.words)
        self.words.extend(items)
        return at

    def set(self, at: int, value: int) -> None:
        self.words[at // 8] = value

    def point(self, at: int, to: int) -> None:
        """Let a word be the address of another."""
        self.set(at, to)
        self.inside.append(at)

    def describe(self, operand: View | np.ndarray, item: int) -> int:
        """Describe an array, as far as kernels read; returns where."""
        at = self.add(*[0] * (ARRAY_BYTES // 8))
        self.set(at + layout.ARRAY_NDIM, len(operand.shape))
        floats = isinstance(operand, View) or operand.dtype.kind == "f"
        self.set(at + layout.ARRAY_DTYPE, _DTYPES[item] if floats else 0)
        if isinstance(operand, View):
            strides = [item * stride for stride in operand.strides]
            self.set(at + layout.ARRAY_DATA, item * operand.offset)
            self.outside.append((at + layout.ARRAY_DATA, operand.base))
            flags = layout.C_CONTIGUOUS if operand.is_contiguous else 0
        else:
            strides = list(operand.strides)
            self.set(at + layout.ARRAY_DATA, operand.ctypes.data)
            flags = layout.C_CONTIGUOUS if operand.flags.c_contiguous else 0
        self.set(at + layout.ARRAY_FLAGS, flags)
        self.point(at + layout.ARRAY_SHAPE, self.add(*operand.shape))
        self.point(at + layout.ARRAY_STRIDES, self.add(*strides))
        return at

    def refer(self, at: int, operand: Any, number: int, item: int) -> None:
        """Set the reference at `at`; `number` is that of its row, −1 for none."""
        tag = layout.TAG_INT
        if isinstance(operand, (View, np.ndarray)):
            tag = layout.TAG_ARRAY
            self.point(at, self.describe(operand, item))
        elif isinstance(operand, float):
            tag = layout.TAG_CONSTANT
            self.set(at, int(np.float64(operand).view(np.int64)))
        else:
            self.set(at, operand)
        self.set(at + 8, number & 0xFFFFFFFF | tag << 32)


def _is_output(operand: Any, out: View) -> bool:
    """Whether an operand is the output, seen otherwise: it has no derivative of its own."""
    inside = isinstance(operand, View) and operand.base == ARENA
    return inside and out.offset <= operand.offset < out.offset + out.size


def _sweep(
    step: Kernel, wanted: Wanted, item: int
) -> tuple[_Memory, int, list[tuple[int, int, int]]]:
    """The sweep's memory, where references are in it, (place, base, reference) of adjoint buffers.

    Operand k is row k, and the output the row after the last of them.
    """
    operands = [*step.operands, step.out]
    memory = _Memory()
    frame = memory.add(*[0] * (layout.FRAME_BYTES // 8))
    memory.set(frame + layout.FRAME_SEEDS, 1)
    memory.set(frame + layout.FRAME_WANTED, step.code)
    memory.set(frame + layout.FRAME_FLOAT32, _DTYPES[4])
    memory.set(frame + layout.FRAME_FLOAT64, _DTYPES[8])
    memory.point(frame + layout.FRAME_LOWEST, memory.add(0))
    tables, cells = memory.add(0), memory.add(*[layout.UNTOUCHED] * len(operands))
    memory.point(tables, cells)
    memory.point(frame + layout.FRAME_ADJOINTS, tables)
    references = memory.add(*[0] * (2 * len(operands)))
    adjoint_buffers = []
    for k, operand in enumerate(operands):
        at = references + k * layout.REFERENCE_BYTES
        last = k == len(step.operands)
        has = isinstance(operand, View) and wanted(operand) and not _is_output(operand, step.out)
        memory.refer(at, operand, k if has or last else -1, item)
        if has or last:
            adjoint_buffer = memory.add(*[0] * (ADJOINT_HEADER // 8))
            memory.point(cells + 8 * k, adjoint_buffer)
            adjoint_buffers.append((adjoint_buffer, operand.base, at))
    return memory, references, adjoint_buffers


def _plain(operand: Any, item: int) -> Any:
    """An operand as kernels of floats and positions read it."""
    if not isinstance(operand, np.ndarray):
        return operand
    return operand.astype(f"f{item}" if operand.dtype.kind == "f" else np.int64, copy=False)


def _words(
    step: Kernel, wanted: Wanted, item: int, forward: int, reverse: int
) -> tuple[np.ndarray, int]:
    """The data of a part, given the addresses of its kernels, and the number of adjoint buffers."""
    memory, references, adjoint_buffers = _sweep(step, wanted, item)
    counts = (len(memory.inside), len(memory.outside), len(adjoint_buffers))
    head = (forward, reverse, len(step.operands), references, 8 * len(memory.words))
    data = words(head, counts, memory.words, memory.inside, memory.outside, adjoint_buffers)
    return data, len(adjoint_buffers)


def forward_words(step: Kernel, kernel: int, item: int) -> np.ndarray:
    """The data of a part that has a value kernel and no reverse one."""
    return _words(step, lambda view: False, item, kernel, 0)[0]


def part_of_kernel(step: Kernel, wanted: Wanted, item: int = ITEM) -> Part:
    step = Kernel(step.code, [_plain(operand, item) for operand in step.operands], step.out)
    forward, reverse = kernels_of(step.code, item)
    data, adjoint_buffers = _words(step, wanted, item, forward, reverse)
    code = compiled_kernels()
    has_reverse = reverse != 0 and adjoint_buffers > 1
    return Part(
        code["kernel_forward"],
        code["kernel_reverse"] if has_reverse else 0,
        data,
        keep=step.operands,
    )


# --- opaque calls ---------------------------------------------------------------------------------
# Parts that call Python: functions without derivative.
#
# Compiled code calls it without the interpreter lock, which the callback takes.

_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_word = ctypes.c_int64.from_address
#: The largest of the whole numbers that elements of so many bytes hold without gaps.
LARGEST = {8: 2**53, 4: 2**24}
#: The exceptions raised, by the run's address.
_raised: dict[int, BaseException] = {}


def raised(run: int) -> BaseException:
    """Why a run has returned RAISED: the exception of a function, or a position out of range."""
    return _raised.pop(run, IndexError(OUTSIDE))


def error_of(run: int, status: int) -> BaseException | None:
    """The exception that has stopped a run with a status; None for a guard, or nothing."""
    if status == RAISED:
        return raised(run)
    if status != REFUSED:
        return None
    code = _word(run + RUN_REFUSED).value
    if not code:
        return MemoryError("tapegrad: there is no memory to run the rule of an operation")
    return BY_CODE[code].refusal(_word(run + RUN_ANSWER).value)


def array_of(run: int, view: View, dtype: np.dtype, bases: int = RUN_VALUE_BASES) -> np.ndarray:
    """The values of a view in a run of a program of a dtype, where they are; or its adjoints."""
    memory, start, offset, strides = _layout(view, dtype)
    base = _word(_word(run + bases).value + 8 * view.base).value
    return np.ndarray(view.shape, dtype, memory.from_address(base + start), offset, strides)


@functools.lru_cache(maxsize=4096)
def _layout(view: View, dtype: np.dtype) -> tuple[Any, int, int, list[int]]:
    """The type of the memory that a view spans, where it starts, and how elements lie in it."""
    item = dtype.itemsize
    spans = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    low, high = sum(s for s in spans if s < 0), sum(s for s in spans if s > 0)
    count = high - low + 1 if view.size else 0
    strides = [item * stride for stride in view.strides]
    start = item * (view.offset + low)
    return ctypes.c_char * (item * count), start, -item * low if count else 0, strides


def float_of(item: int) -> np.dtype:
    """The floats of so many bytes."""
    return np.dtype(f"f{item}")


def holds(dtype: np.dtype, values: np.ndarray) -> bool:
    """Whether elements of a program of a dtype hold the values: whole numbers, and floats."""
    if values.dtype.kind in "iu" and values.size:
        most = LARGEST[dtype.itemsize]
        return -most <= int(values.min()) and int(values.max()) <= most
    return values.dtype.kind in "biuf" and values.dtype.itemsize <= 8


def fits(result: np.ndarray, out: View, dtype: np.dtype) -> bool:
    """Whether a result fits into the program: its shape, and numbers that slots hold.

    Values of other shapes make another program.
    """
    is_wide = result.dtype.kind == "f" and result.dtype.itemsize > dtype.itemsize
    return result.shape == out.shape and not is_wide and holds(dtype, result)


def compute(step: Computed, own: np.dtype, run: int) -> int:
    """Call the function with copies of its operands; returns the status of a part."""
    result = np.asarray(step.function(*_given(step, own, run)))
    if not fits(result, step.out, own):
        _word(run + RUN_FAILED).value = step.out.offset
        return GUARD_FAILED
    array_of(run, step.out, own)[...] = result
    return FINISHED


def _given(step: Computed, own: np.dtype, run: int) -> list:
    """Copies of the operands."""
    return [
        array_of(run, operand, own).astype(dtype) if isinstance(operand, View) else operand
        for operand, dtype in step.operands
    ]


def c_function(call: Callable[[int], int]) -> Any:
    """A function of a run as one of a part, `(run, data)`; its exceptions stop the program."""

    def calling(run, data):
        try:
            return call(run)
        except BaseException as error:  # no exception can pass through compiled code
            _raised[run] = error
            return RAISED

    return _callback(calling)


def address_of(function) -> int:
    """The address of a C function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@part_of.register(Computed)
def part_of_computed(
    step: Computed, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM
) -> Part:
    function = c_function(functools.partial(compute, step, float_of(item)))
    return Part(address_of(function), 0, np.zeros(1, np.int64), keep=function, tier="Python")


# --- rule parts -----------------------------------------------------------------------------------
# Parts of operations that their rules differentiate: value by a kernel or Python, reverse by rule.
#
# In reverse the rule is a program of its own, which serves all programs of the process. It is made
# on first use, with the current values: its maker belongs to a higher wing and registers itself in
# `makers`. If a rule can be no program, Python calls it.


class OperationUse(NamedTuple):
    """An operation as a step uses it: keyword arguments, shapes, which operands have adjoints,
    of which dtype the arrays are, and whether each of them is in C order, so that the program of
    the rule can read it where it is."""

    op: Structural
    static: tuple[tuple[str, Any], ...]
    shapes: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]
    wanted: tuple[bool, ...]
    dtype: np.dtype
    in_order: bool

    def site(self, out, operands) -> Site:
        """The place of a row of it: an operand without adjoint is of none."""
        found = [(0 if one else -1, x) for one, x in zip(self.wanted, operands, strict=True)]
        return Site(found, dict(self.static), out, self.out)

    def parts(self, g, out, operands) -> list:
        """The adjoints of the operands, by the rule, in their shapes; None for those without."""
        with silence():
            parts = parts_of(self.op, g, self.site(out, operands), out, operands)
        pairs = zip(parts, self.shapes, strict=True)
        return [None if part is None else summed_to(part, shape) for part, shape in pairs]


@dataclasses.dataclass(frozen=True, eq=False)
class RuleProgram:
    """The program of a rule, and where its inputs and results are.

    `seed` is the view that takes the adjoint of the output, None if it is not read; `values` are
    those of the output and the operands that are read, by number from −1 on, and `results` the
    adjoints of operands. Views at bases of their own are read where the operands are.
    """

    program: Any
    seed: View | None
    values: dict[int, View]
    results: dict[int, View]


#: The maker of programs of rules: `make(use, g, out, operands)`, of arrays; None where there is
#: none.
makers: list[Callable[[OperationUse, np.ndarray, np.ndarray, list], RuleProgram | None]] = []


@functools.cache
def compiled_rule(item: int) -> dict[str, int]:
    exports = dict.fromkeys(rule_kernels.EXPORTS, SIGNATURE)
    text = elements.head(item, "tapegrad._program.replay.rule_kernels") + rule_kernels.TEXT
    return compile_source(text, exports)


class Ruled:
    """An operation in a step: what Python does of it, and its rule once that is a program."""

    def __init__(self, step: Kernel, wanted: Wanted, fresh: Bases, item: int):
        self.dtype = float_of(item)
        self.op = step.op
        self.views: list[View] = step.operands[1:]
        self.static, self.out = step.operands[0], step.out
        shapes = tuple(view.shape for view in self.views)
        asked = tuple(map(wanted, self.views))
        in_order = all([view.is_contiguous for view in (self.out, *self.views)])
        self.use = OperationUse(
            self.op, self.static, shapes, step.out.shape, asked, self.dtype, in_order
        )
        self.made: RuleProgram | None = None
        self.has_called = False  # its rule, in Python
        self.words = np.zeros(rule_kernels.RULE_WORDS, np.int64)
        self.words[rule_kernels.RULE_SEED // 8] = item * self.out.offset
        self.words[rule_kernels.RULE_SIZE // 8] = self.out.size
        self._tables: list[np.ndarray] = []
        #: The operands whose adjoints nothing else writes.
        self.fresh = {k for k, view in enumerate(self.views) if view.base in fresh}
        rows = [(self.views[k].base, item * self.views[k].size) for k in self.fresh]
        self._rows = np.array(rows, np.int64).reshape(-1, 2)
        self.words[rule_kernels.RULE_FRESH // 8] = self._rows.ctypes.data
        self.words[rule_kernels.RULE_FRESH_COUNT // 8] = len(rows)

    def compute(self, run: int) -> int:
        """The value by NumPy; returns the status of a part.

        Operands are read where they are: no value of an operation keeps them.
        """
        operands = [array_of(run, view, self.dtype) for view in self.views]
        result = np.asarray(self.op.value(*operands, **dict(self.static)))
        if not fits(result, self.out, self.dtype):
            _word(run + RUN_FAILED).value = self.out.offset
            return GUARD_FAILED
        array_of(run, self.out, self.dtype)[...] = result
        return FINISHED

    def pull(self, run: int) -> int:
        """Make the program of the rule, which the caller then runs; or evaluate the rule."""
        g = array_of(run, self.out, self.dtype, RUN_ADJOINT_BASES)
        views = self.out, *self.views
        out, *operands = [array_of(run, view, self.dtype) for view in views]
        made = None
        if makers and not self.has_called:
            copies = [x.copy() for x in operands]
            made = makers[0](self.use, g.copy(), out.copy(), copies)
        if made is not None:
            self.made, table = made, self._table(made)
            self._tables.append(table)  # another thread may have made one, too
            self.words[rule_kernels.RULE_TABLE // 8] = table.ctypes.data
            return rule_kernels.MADE
        parts = self.use.parts(g, out, operands)
        self.has_called = True  # as from now on: a rule that cannot be traced now never can
        for view, part in zip(self.views, parts, strict=True):
            if part is not None and has_adjoints(run, view):
                adjoint = array_of(run, view, self.dtype, RUN_ADJOINT_BASES)
                add_to_view(adjoint, value_of(part))
        return FINISHED

    def _table(self, made: RuleProgram) -> np.ndarray:
        """The copies into a run of the program, and out of it."""
        item = self.dtype.itemsize
        known = {-1: self.out, **dict(enumerate(self.views))}
        seeds = [] if made.seed is None else [(made.seed, self.out)]
        values = [(view, known[k]) for k, view in made.values.items()]
        places = [
            (view.base, is_adjoint, of.base, item * of.offset)
            for is_adjoint, pairs in ((True, seeds), (False, values))
            for view, of in pairs
            if view.base != ARENA
        ]
        moves = [
            [
                move_words(to, of, True, True, item)
                for to, of in pairs
                if to.size and to.base == ARENA
            ]
            for pairs in (seeds, values)
        ]
        found = [(self.views[k], view, k in self.fresh) for k, view in made.results.items()]
        moves.append([move_words(to, of, sets, True, item) for to, of, sets in found if to.size])
        is_partial = not self.fresh <= made.results.keys()
        counts = is_partial, len(places), *map(len, moves)
        return words(made.program.address, *counts, *places, *sum(moves, []))


class KeptObjects(NamedTuple):
    """The objects that the memory of a part refers to: functions, and arrays by address."""

    ruled: Ruled
    functions: list
    static: np.ndarray | None


@part_of.register(Kernel)
def part_of_operation(
    step: Kernel, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM
) -> Part:
    """The part of an operation on whole arrays."""
    if step.op.is_by_rule:
        return part_of_rule(step, wanted, fresh, item)
    return part_of_kernel(step, wanted, item)


def part_of_rule(step: Kernel, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM) -> Part:
    """The part of a step whose operation is differentiated by its rule."""
    ruled, functions, reverse = Ruled(step, wanted, fresh, item), [], 0
    if any(ruled.use.wanted) and not ruled.op.constant:
        reverse = compiled_rule(item)["rule_reverse"]
        functions.append(c_function(ruled.pull))
        ruled.words[rule_kernels.RULE_PYTHON // 8] = address_of(functions[-1])
    static = None if step.calls_python_in(item) else step.static_words
    if static is None:
        functions.append(c_function(ruled.compute))
        forward, data = address_of(functions[-1]), np.zeros(K_COPY // 8, np.int64)
    else:
        kernel = compile_structural(ruled.op, ruled.op.value_kernel)
        forward = compiled_kernels()["kernel_forward"]
        data = forward_words(Kernel(step.code, [static, *ruled.views], step.out), kernel, item)
    data[K_REVERSE // 8] = ruled.words.ctypes.data
    tier = "Python" if static is None else "kernel"
    return Part(forward, reverse, data, keep=KeptObjects(ruled, functions, static), tier=tier)


def has_adjoints(run: int, view: View) -> bool:
    """Whether a run has memory for the adjoints of the base of a view."""
    return _word(_word(run + RUN_ADJOINT_BASES).value + 8 * view.base).value != 0


def ruled_of(part: Part) -> Ruled | None:
    """The operation of a part, if its rule differentiates it."""
    return part.keep.ruled if isinstance(part.keep, KeptObjects) else None


# --- custom calls ---------------------------------------------------------------------------------
# Parts that call a user's operations: Python computes values and adjoints.


class _RepeatedCalls:
    """The calls of a step, in all runs: `held` has by run what its last one left for adjoints."""

    def __init__(self, step: Custom, wanted: Wanted, item: int):
        self.step, self.own = step, float_of(item)
        self.wanted = [dtype.kind == "f" and wanted(view) for view, dtype in step.operands]
        self.held: dict[int, Any] = {}
        self.data = np.zeros(custom_kernels.CUSTOM_WORDS, np.int64)
        self._table: np.ndarray | None = None

    def value(self, run: int) -> int:
        """Call the operation with copies of its operands; returns the status of a part."""
        return self._called(run)[0]

    def value_ahead(self, run: int) -> int:
        """The same where adjoints follow."""
        status, held = self._called(run)
        if not self.step.call.needs_values:
            self.held[run] = held
        return status

    def _called(self, run: int) -> tuple[int, Any]:
        step, own = self.step, self.own
        values, held = step.call.value(self._given(run))
        if values is None or not fits(values, step.out, own):
            _word(run + RUN_FAILED).value = step.out.offset
            return GUARD_FAILED, None
        array_of(run, step.out, own)[...] = values
        if self._table is None:
            self._find_table()
        else:
            step.call.left()
        return FINISHED, held

    def _given(self, run: int) -> list[np.ndarray]:
        operands = self.step.operands
        return [array_of(run, view, self.own).astype(dtype, "C") for view, dtype in operands]

    def _find_table(self) -> None:
        """Let compiled code make the calls, where it can."""
        step = self.step
        is_plain = self.own == DOUBLE and all([dtype == DOUBLE for _, dtype in step.operands])
        if not is_plain or not step.call.needs_values:
            return
        table = step.call.table([view for view, _ in step.operands], step.out, self.wanted)
        if table is not None:
            self._table = table  # before its address: another thread may read that
            self.data[custom_kernels.CUSTOM_TABLE // 8] = table.ctypes.data

    def adjoints(self, run: int) -> int:
        """Add the adjoints of the operands."""
        step, own = self.step, self.own
        if step.call.needs_values:
            held = step.call.held(self._given(run), array_of(run, step.out, own).copy())
        else:
            held = self.held[run]
        g = array_of(run, step.out, own, RUN_ADJOINT_BASES).copy()
        found = step.call.adjoints(held, g)
        for (view, _), wanted, part in zip(step.operands, self.wanted, found, strict=True):
            if wanted and part is not None and has_adjoints(run, view):
                add_to_view(array_of(run, view, own, RUN_ADJOINT_BASES), part)
        return FINISHED


@once
def compiled_custom() -> dict[str, int]:
    return compile_source(custom_kernels.TEXT, dict.fromkeys(custom_kernels.EXPORTS, SIGNATURE))


@part_of.register(Custom)
def part_of_custom(step: Custom, wanted: Wanted, fresh: Bases = NO_BASES, item: int = ITEM) -> Part:
    calls, code = _RepeatedCalls(step, wanted, item), compiled_custom()
    functions = [c_function(one) for one in (calls.value, calls.value_ahead, calls.adjoints)]
    calls.data[custom_kernels.CUSTOM_VALUE // 8 :] = [*map(address_of, functions)]
    is_pulled = step.is_reached and any(calls.wanted)
    return Part(
        code["custom_value"],
        code["custom_adjoints"] if is_pulled else 0,
        calls.data,
        ahead=code["custom_ahead"] if is_pulled else 0,
        keep=(calls, functions),
        tier="Python",
    )
