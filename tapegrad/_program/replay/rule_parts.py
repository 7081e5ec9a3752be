"""Parts of operations that their rules differentiate: value by a kernel or Python, reverse by rule.

In reverse the rule is a program of its own, which serves all programs of the process. It is made
when it is first asked for, with the values at hand: what makes it stands above the parts of
programs and enters itself in `makers`. Where a rule can be no program, Python calls it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._core.codegen.factory import compile_source, once
from ..._core.ops.references import Site
from ..._core.ops.table import BY_CODE, Structural
from ..._core.sweep.kernels import compile_structural
from ..._core.tape.overlaps import add_to_view
from ..._core.tensor.values import value_of
from ..._derivatives.declared_adjoints import parts_of, summed_to
from ..ir.steps import Computed, Kernel, Step, View
from . import rule_kernels, run_layout, structural_kernels
from .moves import Wanted, move_words, words
from .opaque_calls import array_of, c_function, fits
from .parts import SIGNATURE, Part
from .structural import compiled as compiled_kernels
from .structural import forward_words


class Use(NamedTuple):
    """An operation as a step uses it: keyword arguments, shapes, which operands have adjoints."""

    op: Structural
    static: tuple[tuple[str, Any], ...]
    shapes: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]
    wanted: tuple[bool, ...]

    def site(self, out, operands) -> Site:
        """The place of a row of it: an operand without adjoint is of none."""
        found = [(0 if one else -1, x) for one, x in zip(self.wanted, operands, strict=True)]
        return Site(found, dict(self.static), out, self.out)

    def parts(self, g, out, operands) -> list:
        """The adjoints of the operands, by the rule, in their shapes; None for those without."""
        with np.errstate(all="ignore"):
            parts = parts_of(self.op, g, self.site(out, operands), out, operands)
        pairs = zip(parts, self.shapes, strict=True)
        return [None if part is None else summed_to(part, shape) for part, shape in pairs]


class RuleProgram(NamedTuple):
    """The program of a rule, and where its inputs and results are.

    `seed` is the view of its arena that takes the adjoint of the output, None if it is not read;
    `values` are those of the output and the operands that are read, by number from −1 on, and
    `results` the adjoints of operands.
    """

    program: Any
    seed: View | None
    values: dict[int, View]
    results: dict[int, View]


#: What makes programs of rules: `make(use, g, out, operands)`, of arrays; None where there is none.
makers: list[Callable[[Use, np.ndarray, np.ndarray, list], RuleProgram | None]] = []


@once
def compiled() -> dict[str, int]:
    exports = dict.fromkeys(rule_kernels.EXPORTS, SIGNATURE)
    return compile_source(rule_kernels.TEXT, exports)


def static_words(op: Structural, static: dict[str, Any]) -> np.ndarray | None:
    """The keyword arguments of an operation as its value kernel takes them; None without it."""
    if op.value_kernel is None:
        return None
    try:
        return np.array(op.static_words(static), np.int64)
    except (TypeError, OverflowError):
        return None


def calls_python(step: Step) -> bool:
    """Whether values of a step are computed by Python."""
    if not isinstance(step, Kernel) or not BY_CODE[step.code].is_by_rule:
        return isinstance(step, Computed)
    return static_words(BY_CODE[step.code], dict(step.operands[0])) is None


class _Step:
    """A step in a program that is being made: its use of an operation, and what Python calls."""

    def __init__(self, step: Kernel, wanted: Wanted):
        self.op: Structural = BY_CODE[step.code]
        self.views: list[View] = step.operands[1:]
        self.static, self.out = step.operands[0], step.out
        shapes = tuple(view.shape for view in self.views)
        asked = tuple(map(wanted, self.views))
        self.use = Use(self.op, self.static, shapes, step.out.shape, asked)
        self.words = np.zeros(rule_kernels.RULE_WORDS, np.int64)
        self.keep: list = [self.words]

    # --- by Python --------------------------------------------------------------------------------

    def compute(self, run: int) -> int:
        """The value, by NumPy."""
        operands = [array_of(run, view).copy() for view in self.views]
        result = np.asarray(self.op.value(*operands, **dict(self.static)))
        if not fits(result, self.out):
            ctypes.c_int64.from_address(run + run_layout.RUN_FAILED).value = self.out.offset
            return run_layout.GUARD_FAILED
        array_of(run, self.out)[...] = result
        return run_layout.FINISHED

    def pull(self, run: int) -> int:
        """Make the program of the rule, for the caller to run; or do what the rule says."""
        g, out, *operands = [
            array_of(run, view, bases).copy()
            for view, bases in (
                (self.out, run_layout.RUN_ADJOINT_BASES),
                (self.out, run_layout.RUN_VALUE_BASES),
                *[(view, run_layout.RUN_VALUE_BASES) for view in self.views],
            )
        ]
        made = makers[0](self.use, g, out, operands) if makers else None
        if made is not None:
            table = self._table(made)
            self.keep += [made, table]
            self.words[rule_kernels.RULE_TABLE // 8] = table.ctypes.data
            return run_layout.FINISHED
        for view, part in zip(self.views, self.use.parts(g, out, operands), strict=True):
            if part is not None and has_adjoints(run, view):
                target = array_of(run, view, run_layout.RUN_ADJOINT_BASES)
                add_to_view(target, value_of(part))
        return run_layout.FINISHED

    def _table(self, made: RuleProgram) -> np.ndarray:
        seeds = [] if made.seed is None else [move_words(made.seed, self.out, True, True)]
        known = {-1: self.out, **dict(enumerate(self.views))}
        values = [move_words(view, known[k], True, True) for k, view in made.values.items()]
        results = [move_words(self.views[k], view, False, True) for k, view in made.results.items()]
        counts = len(seeds), len(values), len(results)
        return words(made.program.address, counts, *seeds, *values, *results)

    # --- parts ------------------------------------------------------------------------------------

    def part(self) -> Part:
        reverse, python = 0, []
        if any(self.use.wanted):
            reverse = compiled()["rule_reverse"]
            python.append(c_function(self.pull))
            self.words[rule_kernels.RULE_PYTHON // 8] = address_of(python[-1])
            self.words[rule_kernels.RULE_SEED // 8] = 8 * self.out.offset
            self.words[rule_kernels.RULE_SIZE // 8] = self.out.size
        given = static_words(self.op, dict(self.static))
        if given is None:
            python.append(c_function(self.compute))
            forward, data = (
                address_of(python[-1]),
                np.zeros(structural_kernels.K_COPY // 8, np.int64),
            )
        else:
            forward, data = compiled_kernels()["kernel_forward"], self._forward(given)
        data[structural_kernels.K_REVERSE // 8] = self.words.ctypes.data
        return Part(forward, reverse, data, keep=[self, given, python])

    def _forward(self, given: np.ndarray) -> np.ndarray:
        """The words of the value kernel."""
        kernel = compile_structural(self.op, self.op.value_kernel)
        step = Kernel(self.op.code, [given, *self.views], self.out)
        return forward_words(step, kernel)


def has_adjoints(run: int, view: View) -> bool:
    """Whether a run has memory for the adjoints of the base of a view."""
    table = ctypes.c_int64.from_address(run + run_layout.RUN_ADJOINT_BASES).value
    return ctypes.c_int64.from_address(table + 8 * view.base).value != 0


def address_of(function) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def part_of_rule(step: Kernel, wanted: Wanted) -> Part:
    """The part of a step whose operation is differentiated by its rule."""
    return _Step(step, wanted).part()


def rule_of(part: Part) -> RuleProgram | None:
    """The program of the rule of a part, once it has been made."""
    step = part.keep[0] if isinstance(part.keep, list) and part.keep else None
    if not isinstance(step, _Step):
        return None
    return next((one for one in step.keep if isinstance(one, RuleProgram)), None)
