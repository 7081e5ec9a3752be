"""Parts of operations that their rules differentiate: value by a kernel or Python, reverse by rule.

In reverse the rule is a program of its own, which serves all programs of the process. It is made on
first use, with the current values: its maker belongs to a higher wing and registers itself in
`makers`. If a rule can be no program, Python calls it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen import elements
from ..._core.codegen.elements import ITEM
from ..._core.codegen.factory import compile_source
from ..._core.ops.table import Site, Structural
from ..._core.sweep.kernels import compile_structural
from ..._core.tape.sweeps import add_to_view
from ..._core.tensor.runtime import silence
from ..._core.tensor.values import value_of
from ..._derivatives.recorded_reverse import parts_of, summed_to
from ..ir.kernel_step import Kernel
from ..ir.steps import ARENA, View
from . import rule_kernels
from .moves import move_words, words
from .opaque_calls import address_of, array_of, c_function, fits, float_of
from .parts import NO_BASES, SIGNATURE, Bases, Part, Wanted, part_of
from .run_layout import FINISHED, GUARD_FAILED, RUN_ADJOINT_BASES, RUN_FAILED
from .structural import compiled as compiled_kernels
from .structural import forward_words, part_of_kernel
from .structural_kernels import K_COPY, K_REVERSE

_word = ctypes.c_int64.from_address


class Use(NamedTuple):
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
makers: list[Callable[[Use, np.ndarray, np.ndarray, list], RuleProgram | None]] = []


@functools.cache
def compiled(item: int) -> dict[str, int]:
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
        self.use = Use(self.op, self.static, shapes, step.out.shape, asked, self.dtype, in_order)
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


class Kept(NamedTuple):
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
        reverse = compiled(item)["rule_reverse"]
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
    return Part(forward, reverse, data, keep=Kept(ruled, functions, static), tier=tier)


def has_adjoints(run: int, view: View) -> bool:
    """Whether a run has memory for the adjoints of the base of a view."""
    return _word(_word(run + RUN_ADJOINT_BASES).value + 8 * view.base).value != 0


def ruled_of(part: Part) -> Ruled | None:
    """The operation of a part, if its rule differentiates it."""
    return part.keep.ruled if isinstance(part.keep, Kept) else None
