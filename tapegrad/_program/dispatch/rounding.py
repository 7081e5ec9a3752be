"""Whether two results are equal but for rounding, and how far rounding alone moves them.

Where terms cancel a result says nothing of their size: a gradient that is 0 comes out as -6e-16 or
as 5e-17, by the order of sums. So a program is run some times more, with inputs and constants a few
units in the last places away and with seeds that are no powers of two: it has neither state nor
random numbers, and what it gives then differs by rounding alone. The same is done with the function
itself, if it gives the same twice: terms may cancel there that cancel exactly in the program. What
is lost inside, as by 1 - tanh², is seen by rounding in other directions.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.tensor.pytree import tree_leaves
from ..._core.tensor.values import value_of
from ..build.executable import Program
from ..ir.kernel_step import Custom
from ..ir.steps import DOUBLE
from ..replay.operation_parts import error_of
from ..replay.parts import Run
from ..replay.run_layout import FINISHED

#: Results that are compared may differ by so much of the largest, by the bytes of a number.
ROUNDING = {8: 1e-7, 4: 5e-4}
#: Runs up and down that are compared: inputs are moved by so many units in the last place at most,
#: since a few do not reach the last place of what a small number is added to.
_MOVES = {8: [2.0**k for k in range(2, 21, 3)], 4: [2.0**k for k in range(2, 9, 3)]}
_FEW = 4.0
#: By how many times more two ways of computing may differ: one adds up by pairs and the other in
#: order, or computes exp by vectors.
_MARGIN = 100.0
#: By how many times more than by rounding in another direction, which each operation takes.
_DIRECTED = 8.0
#: Results that it moves by more than so many units in the last place of the largest number have
#: jumped, or come from functions that are made for the nearest number.
_JUMP = 512.0


def agree(a, b, noise: float = 0.0, dtype: np.dtype = DOUBLE) -> bool:
    """Whether two results are equal but for rounding, which moves them by `noise` at least.

    They have been computed in a dtype.
    """
    a, b = np.asarray(value_of(a)), np.asarray(value_of(b))
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind != "f":
        return bool(np.all(a == b))
    largest = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    rounding = ROUNDING[dtype.itemsize]
    allowed = rounding * float(largest) + noise
    return bool(np.allclose(a, b, rtol=rounding, atol=allowed, equal_nan=True))


def first_difference(
    found, expected, *noises: Callable[[], list[float]], dtype: np.dtype = DOUBLE
) -> tuple | None:
    """The first leaves of two results that are not equal but for rounding; None if all are.

    They have been computed in a dtype.

    Each of `noises` says how far rounding moves leaves. It is called only where leaves seem to
    differ.
    """
    leaves = itertools.zip_longest(tree_leaves(found), tree_leaves(expected), fillvalue=("", None))
    pairs = [(a, b) for (_, a), (_, b) in leaves]
    differing = [k for k, pair in enumerate(pairs) if not agree(*pair, dtype=dtype)]
    for noise in noises:
        if differing:
            moved = [*noise(), *[0.0] * len(pairs)]
            differing = [k for k in differing if not agree(*pairs[k], moved[k], dtype)]
    return pairs[differing[0]] if differing else None


def differ_in_nan(a, b, *, dtype: np.dtype = DOUBLE) -> bool:
    """Whether elements that differ are NaN in one of two results of one shape."""
    a, b = np.asarray(value_of(a)), np.asarray(value_of(b))
    if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
        return False
    is_one = np.isnan(a) != np.isnan(b)
    a, b = np.where(is_one, 0.0, a), np.where(is_one, 0.0, b)
    return bool(np.any(is_one)) and agree(a, b, dtype=dtype)


class Moves:
    """How far rounding alone may move what is computed of inputs.

    A result may jump at these inputs, which is more than rounding: what counts are inputs moved up
    or moved down, by which it moves less, and no more than a small part of `_largest`, the largest
    number that is met.
    """

    def __init__(self, objects: list, floats: list[bool], dtype: np.dtype = DOUBLE):
        self.objects, self._floats, self.dtype = objects, floats, dtype
        self._rng = np.random.default_rng(0)
        self._largest, self._moved = 0.0, False

    def of(self, compute: Callable[[list], Any], is_ours: bool = False) -> list[float]:
        """For each leaf of what a function computes; 0 if that is not the same every time.

        A function that `is_ours` calls nothing of a user's: it may be rounded otherwise.
        """
        self._moved = False
        first, again = _leaves(compute, self.objects), _leaves(compute, self.objects)
        if _apart(first, again).any():
            return [0.0] * len(first)
        directed = self._directed(compute, first) if is_ours else 0.0
        self._moved = True
        moved = np.minimum(*[self._most(compute, first, sign) for sign in (1.0, -1.0)])
        largest = ROUNDING[self.dtype.itemsize] * self._largest
        noise = np.maximum(_MARGIN * moved, _DIRECTED * directed)
        return np.minimum(noise, largest).tolist()

    def _directed(self, compute, first: list) -> np.ndarray:
        """How far results are moved by rounding in other directions."""
        most = np.zeros(len(first))
        for direction in DIRECTIONS:
            found = rounded(direction, lambda: _leaves(compute, self.objects))
            most = np.maximum(most, _apart(found, first))
        jump = _JUMP * float(np.finfo(self.dtype).eps) * self._largest
        return np.where(most < jump, most, 0.0)

    def _most(self, compute, first: list, sign: float) -> np.ndarray:
        """How far results are moved at most, of inputs moved up or down."""
        most = np.zeros(len(first))
        for move in _MOVES[self.dtype.itemsize]:
            pairs = zip(self.objects, self._floats, strict=True)
            given = [self._away(x, sign * move) if moves else x for x, moves in pairs]
            most = np.maximum(most, _apart(_leaves(compute, given), first))
        return most

    def _away(self, value, units: float):
        """A number or an array, moved by fewer units in the last place than given."""
        part = units * float(np.finfo(self.dtype).eps) * self._rng.random(np.shape(value))
        made = value * (1.0 + np.sign(value) * part)  # infinities stay
        if isinstance(value, np.ndarray):
            return np.asarray(made, value.dtype)
        return float(self.dtype.type(made))


class RoundingOfCalls(Moves):
    """How far rounding alone may move what functions compute of floats and arrays."""

    def __init__(self, objects: list, dtype: np.dtype = DOUBLE):
        super().__init__(objects, [np.asarray(x).dtype.kind == "f" for x in objects], dtype)

    def of(self, compute: Callable[[list], Any], is_ours: bool = False) -> list[float]:
        met = [*map(np.asarray, self.objects), *_leaves(compute, self.objects)]
        self._largest = max([0.0, *map(_largest, met)])
        return super().of(compute, is_ours)


class Rounding(Moves):
    """How far rounding alone may move what is computed of the inputs of a program.

    With `reverse` adjoints too.
    """

    def __init__(self, program: Program, objects: list, reverse: bool):
        code = program.code
        super().__init__(objects, [one.dtype.kind == "f" for one in code.inputs], code.dtype)
        self.program, self.reverse = program, reverse

    def of_program(self) -> tuple[list[float], list[float]]:
        """For each result of the program, and the adjoint of each input."""
        code = self.program.code
        noise, count = self.of(self._run, not code.of(Custom)), len(code.outputs)
        return noise[:count], noise[count:]

    def _run(self, objects: list) -> list:
        """Results, then adjoints for a seed divided by it; nothing on another way."""
        memory, code = self.program.begin(), self.program.code
        try:
            if self._moved:
                for slot, values in code.constants:
                    memory.values[slot : slot + len(values)] = self._little_away(values)
                held = [*map(self._little_away, code.held)]
                self.program.hold(memory, held)
            return self._found(memory, objects)
        finally:
            for slot, values in code.constants:
                memory.values[slot : slot + len(values)] = values
            self.program.hold(memory, code.held)
            self.program.end(memory)

    def _little_away(self, values: np.ndarray) -> np.ndarray:
        """Constants moved, but for whole numbers: these may be exponents, truths or positions."""
        return np.where(np.rint(values) == values, values, self._away(values, _FEW))

    def _found(self, memory: Run, objects: list) -> list:
        status = self.program.forward(memory, objects, self.reverse)
        if status != FINISHED:
            error_of(memory.address, status)
            return []
        found = [np.array(result) for result in self.program.results(memory)]
        met = [memory.values, *map(np.asarray, objects), *self.program.code.held]
        if self.reverse:
            seed = self._rng.uniform(1.0, 2.0) if self._moved else 1.0
            seeds = [np.full(one.view.shape, seed) for one in self.program.code.outputs]
            adjoints = self.program.reverse(memory, seeds)
            found += [np.zeros(()) if a is None else np.asarray(a) / seed for a in adjoints]
            met.append(memory.adjoints)
        self._largest = max(self._largest, *map(_largest, met))
        return found


def _leaves(compute: Callable[[list], Any], objects: list) -> list[np.ndarray]:
    """The numbers of a result, 0 for leaves that are none; nothing where it is not defined."""
    try:
        tree = compute(objects)
    except Exception:
        return []
    leaves = [np.asarray(value_of(leaf)) for _, leaf in tree_leaves(tree)]
    return [leaf if leaf.dtype.kind == "f" else np.zeros(()) for leaf in leaves]


def _apart(found: list, first: list) -> np.ndarray:
    """How far leaves are apart; not at all where a result has another form."""
    if [leaf.shape for leaf in found] != [leaf.shape for leaf in first]:
        return np.zeros(len(first))
    return np.array([_distance(a, b) for a, b in zip(found, first, strict=True)])


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.max(np.abs(a[both] - b[both]), initial=0.0))


def _largest(numbers: np.ndarray) -> float:
    return float(np.max(np.abs(numbers), initial=0.0, where=np.isfinite(numbers)))


# --- rounding in other directions: how far a result depends on the last places inside -------------
# The slope of tanh at 13 is 1 - tanh² = 2e-11. If tanh changes in its last place, as it does
# between libraries, the slope changes by 1e-5 of itself. Arguments that are moved by some units in
# the last place do not show that, since tanh stays the same. It changes if all operations round up,
# or all round down; places in which the results differ then are not known [1]_.
#
# The direction is that of a thread. Only machine code of ours is to run meanwhile. libmvec is made
# for the nearest number: in other directions some of its functions err by more (arctan by 10%).
#
# .. [1] J. Vignes, "Discrete stochastic arithmetic for validating results of numerical software",
# Numerical Algorithms 37 (2004), 377-390.


#: FE_DOWNWARD and FE_UPWARD of the C library, by the machine.
_BY_MACHINE = {
    "x86_64": (0x400, 0x800),
    "aarch64": (0x800000, 0x400000),
    "arm64": (0x800000, 0x400000),
}


def _of_c() -> tuple[Callable[[], int], Callable[[int], int]] | None:
    """`fegetround` and `fesetround`; None if the process has none, as under Windows."""
    try:
        library = ctypes.PyDLL(None)
        return library.fegetround, library.fesetround
    except (OSError, TypeError, AttributeError):
        return None


_C = _of_c()
#: The directions other than to the nearest number; none where they cannot be set.
DIRECTIONS = _BY_MACHINE.get(platform.machine(), ()) if _C else ()


def rounded(direction: int, compute: Callable[[], Any]) -> Any:
    """What a function gives if this thread rounds in one of `DIRECTIONS`.

    A context manager would leave the direction as it is if an interrupt met its `__exit__`.
    """
    assert _C is not None
    current, change = _C
    before = current()
    try:
        change(direction)
        return compute()
    finally:
        change(before)
