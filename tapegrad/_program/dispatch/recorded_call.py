"""A compiled function called: arrays and floats unchanged on a fast path, or inside a recording."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..._core.codegen.layout import ARRAY, REFERENCES
from ..._core.ops import call_rows as _declaration
from ..._core.ops.table import TABLE
from ..._core.tensor import copies
from ..._core.tensor import runtime as rt
from ..._core.tensor.copies import view_like
from ..._core.tensor.pytree import (
    CONTAINERS,
    is_complex_leaf,
    is_fixed,
    items_of,
    repeats,
    tree_build,
    tree_leaves,
)
from ..._core.tensor.trace import DerivativeLost
from ..._core.tensor.values import is_recorded, is_tensor, records, scalar_of, value_of, wrap
from ..._derivatives.inputs import Inputs, plain
from ..._derivatives.recorded_reverse import references_of
from ..._derivatives.tape_traversal import joined, seen_as
from ..._transforms.gradients import must_record, pushed
from ..._transforms.jacobians import vjp
from ..build.executable import Program
from ..ir.steps import DOUBLE
from ..replay.parts import Run
from ..replay.run_layout import FINISHED
from .flow_choice import by_graph, vjp_of
from .signature import Arguments, is_float, kind_of_key, structure, trees_apart
from .variants import Variant, Variants

# --- fast path ------------------------------------------------------------------------------------
# The fast path of a call: arrays and floats unchanged, and no program looked up.

_SINGLE = np.dtype(np.float32)
_word = ctypes.c_int64


class _RunMemory:
    """A run with its table of objects (see `driver.fast`) and its results; `value` is the first."""

    __slots__ = ("at", "results", "run", "table", "value")

    def __init__(self, run: Run, firsts: list[int]):
        self.run, count = run, len(firsts)
        self.table = (_word * (2 + 3 * count))(run.address, run.program.address)
        self.table[2 + 2 * count :] = firsts  # type: ignore[assignment]
        self.at = ctypes.addressof(self.table)
        self.results = run.program.results(run)
        first = self.results[0].ctypes.data if self.results else run.values.ctypes.data
        number = ctypes.c_double if run.program.code.dtype == DOUBLE else ctypes.c_float
        self.value = number.from_address(first)


class FastCall:
    """Evaluations of a program whose inputs are the positional arguments.

    A call returns None where that does not hold, or a guard fails. Compiled code reads floats and
    arrays. Derivatives are given in some `order`. `is_number` says that there is one result of one
    element, which can be differentiated; `is_plain` that the function returns it unchanged, a
    float.
    """

    bare = True  # no argument is in a structure

    def __init__(self, variant: Variant, firsts: list[int]):
        self.variant, self.program, self._firsts = variant, variant.program, firsts
        self.unchanged = variant.names.check
        self.order: list[int] = []
        self.calls = 0
        code = self.program.code
        self.count = len(code.inputs)
        #: For each differentiated input its place in the table, the function that makes its
        #: gradient, its shape.
        self.gradients = [
            (2 + self.count + k, copies.maker(one.view.shape, code.dtype), one.view.shape)
            for k, one in enumerate(code.inputs)
            if one.differentiated
        ]
        self.differentiated = {k for k, one in enumerate(code.inputs) if one.differentiated}
        self.numbers = any(shape == () for _, _, shape in self.gradients)
        outputs = code.outputs
        self.is_number = (
            len(outputs) == len(variant.leaves) == 1
            and outputs[0].view.size == 1
            and outputs[0].dtype == code.dtype
        )
        bare = tree_build(variant.tree, iter([self] * len(variant.leaves))) is self
        is_float = self.is_number and outputs[0].view.shape == () and code.dtype == DOUBLE
        self.is_plain = is_float and bare
        self.compiled = self.program.compiled["fast"]
        self.compiled_value = self.program.compiled["fast_value"]
        self.free: list[_RunMemory] = []

    def reads_any(self, arrays: Iterable[np.ndarray]) -> bool:
        """Whether some arrays may lie in memory that the program reads outside."""
        held = self.program.code.held
        return bool(held) and any(np.may_share_memory(a, b) for a in arrays for b in held)

    def end(self) -> None:
        """Serve no further call: the variant has another program."""
        self.unchanged = bool  # which is False

    def _held(self, args: tuple) -> _RunMemory | None:
        """Memory for a call, with its arguments in the table."""
        if len(args) != self.count or not self.unchanged():
            return None
        self.calls += 1
        try:
            held = self.free.pop()
        except IndexError:
            held = _RunMemory(self.program.begin(), self._firsts)
        table, k = held.table, 2
        for arg in args:
            table[k] = id(arg)
            k += 1
        return held

    def value(self, args: tuple) -> tuple | None:
        """The result of the function, in a tuple."""
        held = self._held(args)
        if held is None:
            return None
        status = self.compiled_value(held.at)
        found = None
        if status == FINISHED:
            found = (held.value.value if self.is_plain else self.variant.result(held.results),)
        self.free.append(held)
        return found

    def value_and_grad(self, args: tuple, arrays=()):
        """The value, and the derivatives of the differentiated inputs in their order.

        They are written to `arrays`, if these are given.
        """
        held = self._held(args)
        if held is None:
            return None
        table = held.table
        found: list[np.ndarray] = []
        for place, make, shape in self.gradients:
            made = arrays[len(found)] if arrays else make(shape)
            table[place] = id(made)
            found.append(made)
        status = self.compiled(held.at)
        value = held.value.value
        self.free.append(held)
        if status != FINISHED:
            return None
        return value, [plain(one) for one in found] if self.numbers else found

    def arranged(self, args: tuple, gradients: list, argnums: tuple[int, ...], single: bool):
        """Derivatives of the inputs, as `argnums` names their arguments."""
        if self.bare:
            return tuple([gradients[k] for k in self.order])
        given, numbers = iter(gradients), [number % len(args) for number in argnums]
        built = {k: tree_build(args[k], given) for k in sorted({*numbers})}
        found = [built[k] for k in numbers]
        return found[0] if single else tuple(found)


class ExactCall(FastCall):
    """The same where data without axes must have the types that they had, by their places."""

    def __init__(self, variant: Variant, firsts: list[int], exact: list[tuple[int, type]]):
        super().__init__(variant, firsts)
        self.exact = exact

    def _held(self, args: tuple) -> _RunMemory | None:
        if len(args) == self.count and any([type(args[k]) is not kind for k, kind in self.exact]):
            return None
        return super()._held(args)


class StructuredCall(FastCall):
    """The same where arguments hold inputs in structures."""

    bare = False

    def __init__(self, variant: Variant, arguments: Arguments):
        super().__init__(variant, [-1] * len(variant.program.code.inputs))
        self.structures = [structure(tree) for tree in arguments.trees]
        self._same, self._apart = arguments.same, arguments.apart

    def value(self, args: tuple) -> tuple | None:
        inputs = self._inputs(args, ())
        return None if inputs is None else super().value(inputs)

    def value_and_grad(self, args: tuple, arrays=()):
        inputs = self._inputs(args, self._apart)
        return None if inputs is None else super().value_and_grad(inputs, arrays)

    def _inputs(self, args: tuple, apart) -> tuple | None:
        """The inputs in the arguments, if these have the structures."""
        if len(args) != len(self.structures):
            return None
        leaves: list = []
        objects: list[int] = []
        for k, made in enumerate(self.structures):
            if not _taken(args[k], made, leaves, [] if k in apart else objects):
                return None
        if self._same or len({*objects}) < len(objects):
            if repeats(trees_apart(args, apart)) != self._same:
                return None
        return tuple(leaves)


def _taken(tree, made, leaves: list, objects: list[int]) -> bool:
    """Whether a tree has a structure; its leaves, and its objects by their ids, are added."""
    if made is None:
        leaves.append(tree)
        if type(tree) is not float:
            objects.append(id(tree))
        return True
    kind, inner = made
    if issubclass(kind, dict):
        if type(tree) is not kind or len(tree) != len(inner):
            return False
        objects.append(id(tree))
        for key, (name, item, of_key) in zip(tree, inner, strict=True):
            if key is not name and (key != name or kind_of_key(key) != of_key):
                return False
            if not _taken(tree[key], item, leaves, objects):
                return False
        return True
    if kind is complex:
        leaves += [part for _, part in tree_leaves(tree)]
        objects.append(id(tree))
        return is_complex_leaf(tree)
    if type(tree) is not kind:
        return False
    if not isinstance(tree, tuple):
        objects.append(id(tree))
    if isinstance(tree, (tuple, list)):
        held = tree if kind in CONTAINERS else items_of(tree)
        if len(held) != len(inner):
            return False
        for one, item in zip(held, inner, strict=True):
            if not _taken(one, item, leaves, objects):
                return False
        return True
    return all([_has_field(tree, name, field, leaves, objects) for name, field in inner])


def _has_field(tree, name: str, field, leaves: list, objects: list[int]) -> bool:
    """Whether a field has the value, or the structure in a tuple, that it had."""
    value = getattr(tree, name)
    if type(field) is tuple:
        return not is_fixed(value) and _taken(value, field[0], leaves, objects)
    return value is field or (type(value) is type(field) and value == field)


def fast_call(variant: Variant, arguments: Arguments) -> FastCall | None:
    """The fast path of a variant, if there is one."""
    plain = not arguments.names and not any(fixed for fixed, _ in arguments.static)
    dtypes = [(dtype, shape) for dtype, shape, _ in arguments.kinds]
    exact = all(dtype == DOUBLE or (dtype == _SINGLE and shape) for dtype, shape in dtypes)
    in_order = not any(arguments.orders)  # compiled code takes arrays in C order alone
    kinds = zip(arguments.kinds, arguments.types, strict=True)
    numbers = [
        (k, kind) for k, ((_, shape, wanted), kind) in enumerate(kinds) if not (shape or wanted)
    ]
    is_exact = variant.is_exact and bool(numbers)
    if not (plain and exact and in_order):
        return None
    fast = variant.fast
    if fast is None or fast.program is not variant.program:
        if any([structure(tree) for tree in arguments.trees]):
            if is_exact:
                return None
            fast = StructuredCall(variant, arguments)
        else:
            before = dict(arguments.same)
            firsts = [before.get(k, k) for k in range(len(arguments.trees))]
            fast = ExactCall(variant, firsts, numbers) if is_exact else FastCall(variant, firsts)
        variant.fast = fast
        if fast.program is not variant.program:  # another thread has put one in its place
            fast.end()
    return fast


def arrays_for(out, args: tuple, argnums: tuple[int, ...], single: bool) -> dict:
    """The caller's arrays by the number of their argument, once they have been checked."""
    arrays = (out,) if single else out
    if not all(-len(args) <= number < len(args) for number in argnums):
        raise ValueError(
            f"tapegrad.compile: out needs the arguments of argnums {argnums} by position; there "
            f"are {len(args)}"
        )
    numbers = [number % len(args) for number in argnums]
    if len({*numbers}) < len(numbers):
        raise ValueError(
            f"tapegrad.compile: out needs argnums that name each argument once, not {argnums}"
        )
    if not isinstance(arrays, (tuple, list)) or len(arrays) != len(numbers):
        raise ValueError(
            f"tapegrad.compile: out must be {len(numbers)} arrays, one for each argument of "
            f"argnums {argnums}"
        )
    for number, array in zip(numbers, arrays, strict=True):
        argument = value_of(args[number])
        shape = np.shape(argument) if isinstance(argument, (np.ndarray, float, int)) else None
        own = getattr(argument, "dtype", DOUBLE)
        dtype = _SINGLE if own == _SINGLE else DOUBLE
        fits = isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape
        if not fits or not array.flags.carray:
            seen = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else array
            wanted = "in a structure" if shape is None else f"of shape {shape}"
            raise ValueError(
                f"tapegrad.compile: out for argument {number}, {wanted}, is {seen}; it must be a "
                f"writable {dtype} array in C order of the same shape"
            )
        others = [*map(value_of, args), *arrays]
        if sum(np.may_share_memory(array, x) for x in others if isinstance(x, np.ndarray)) > 1:
            raise ValueError(
                f"tapegrad.compile: out for argument {number} shares memory with an argument or "
                "another out; give it memory of its own"
            )
    return dict(zip(numbers, arrays, strict=True))


# --- recorded call --------------------------------------------------------------------------------
# A compiled function called inside a recording: one row, whose adjoint its program computes.
#
# The row keeps the run of the program for the reverse sweep. Where derivatives are recorded, or
# carried forwards, the function is called eagerly: so they are right to any order.

assert _declaration
_ROW = ARRAY + TABLE["function"].code
#: Runs that a program keeps for later calls: a tape of many rows returns as many.
_RUNS = 8
#: A row has references to this call, its result and its operands.
_MOST_OPERANDS = REFERENCES - 3


def recorded_call(owner, arguments: Arguments) -> tuple | None:
    """The result of a compiled function for recorded arguments, in a tuple; None where it is none.

    There is none while a program is traced, at the first such call, and where the program has
    arguments or results that a row has not.
    """
    if rt.trace() is not None or not rt.is_recording() or not _fits(arguments):
        return None
    if owner._verify == "always":
        return None
    plain = arguments.plain(owner._argnums)
    operands = {k: leaf for k, leaf in enumerate(arguments.inputs()) if is_recorded(leaf)}
    if len(operands) > _MOST_OPERANDS:
        return None
    call, tensors = RecordedCall(owner, plain, [*operands]), [*operands.values()]
    if owner._reason is None and (flow := owner._flows.of(owner, plain)) is not None:
        return (_as_number if flow.is_number else _by_flow)(call, tensors)
    family = owner._family(plain)
    if family is None or not _is_known(family):
        return None
    return _as_number(call, tensors) if _gives_number(family) else _by_run(call, family, tensors)


def short_recorded_call(owner, args: tuple) -> tuple | None:
    """The same by the fast path of a call for one number, where possible."""
    fast = owner._fast  # another thread may set it
    if fast is None and not owner._flows.found:
        return None
    if rt.trace() is not None or not rt.is_recording() or repeats([*args]):
        return None
    values = [value_of(arg) for arg in args]
    plain = tuple([x.copy("K") if isinstance(x, np.ndarray) else x for x in values])
    operands = {k: arg for k, arg in enumerate(args) if is_recorded(arg)}
    wanted = sorted({number % len(args) for number in owner._argnums}) if args else []
    if not operands or not {*wanted}.issuperset(operands):
        return None
    found = _short_gradients(owner, fast, plain, wanted)
    if found is None:
        return None
    call = RecordedCall(owner, plain, [*operands])
    value, gradients = found
    return call.record_number(value, gradients, [*operands.values()])


def _short_gradients(owner, fast: FastCall | None, args: tuple, wanted: list) -> tuple | None:
    """The value, and the gradients by argument."""
    if fast is None:
        if not all(map(is_float, args)):  # rows of numbers are of float64
            return None
        found = owner._flows.short(owner, args, gradient=True)
        if found is None or owner._single:
            return found and (found[0], {wanted[0]: found[1]})
        numbers = [number % len(args) for number in owner._argnums]
        return found[0], dict(zip(numbers, found[1], strict=True))
    found = fast.value_and_grad(args) if fast.bare and fast.is_plain else None
    if found is None:
        return None
    if fast.calls == fast.variant.patience:
        owner._make_hot(fast, args)
    return found[0], dict(zip(wanted, found[1], strict=True))


def _fits(arguments: Arguments) -> bool:
    """Whether only differentiated arguments are recorded, and those are float64."""
    if arguments.reason is not None:
        return False
    for k, tree in enumerate(arguments.trees):
        leaves = [leaf for _, leaf in tree_leaves(tree)]
        if k in arguments.wanted and not all(map(is_float, leaves)):
            return False
        if k not in arguments.wanted and any(map(is_recorded, leaves)):
            return False
    return True


def _is_known(family: Variants) -> bool:
    """Whether such arguments have occurred before: a single call would not justify a program."""
    known = bool(family.found) or family.nested
    family.nested = True
    return known


def _gives_number(family: Variants) -> bool:
    """Whether the function returns one float, as far as is known."""
    return bool(family.found) and all([variant.is_float() for variant in family.found])


def _as_number(call: RecordedCall, operands: list) -> tuple | None:
    """The result of a function that gives a number, with its gradient.

    The sweep will request that, and both together take the least time.
    """
    arguments = call.arguments
    try:
        value, gradient = arguments.call(call.owner.value_and_grad, arguments.values)
    except (
        ValueError,
        DerivativeLost,
    ):  # of another result; the function as it is gives the reason
        return None
    if call.owner._reason is not None:
        return None
    return call.record_number(value, call.by_input(gradient), operands)


def _by_flow(call: RecordedCall, operands: list) -> tuple | None:
    """The result of a function that gives several numbers, by its graph, also in reverse."""
    arguments = call.arguments
    out = arguments.call(call.owner, arguments.values)
    leaves = [leaf for _, leaf in tree_leaves(out)]
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
    if call.owner._reason is not None or any([one.dtype != np.float64 for one in arrays]):
        return None
    call.leaves = len(leaves)
    floats = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (float, np.ndarray))]
    call.results = [(k, k, np.shape(leaves[k])) for k in floats]
    arrays = [np.array(leaves[k]) for k in floats]
    if not sum([array.size for array in arrays]):
        return None
    return (call.record(arrays, out, leaves, operands),)


def _by_run(call: RecordedCall, family: Variants, operands: list) -> tuple | None:
    """The result of a function that gives others; the run of its program waits for seeds."""
    variant, run = _begun(call.owner, family, call.arguments)
    if variant is None or run is None:
        return None
    call.run, call.program = run, run.program
    call.held = [array.copy() for array in run.program.code.held]
    run.program.hold(run, call.held)
    outputs, found = run.program.code.outputs, run.program.results(run)
    call.results = [
        (leaf, k, outputs[k].view.shape)
        for leaf, (k, _) in enumerate(variant.leaves)
        if k >= 0 and outputs[k].dtype == np.float64
    ]
    arrays = [np.array(found[k]) for _, k, _ in call.results]
    in_order = all(variant.leaves[leaf][1] is None for leaf, _, _ in call.results)
    if not in_order or not sum([array.size for array in arrays]):
        return None
    leaves = [value for _, value in tree_leaves(variant.result(found))]
    return (call.record(arrays, variant.tree, leaves, operands),)


def _begun(owner, family: Variants, arguments: Arguments) -> tuple[Variant | None, Run | None]:
    """The program whose guards hold, compared as in any call, and its run."""
    for _ in range(3):  # recorded, compared, compared with native code that has replaced it
        owner._go_on_with_trials(family, arguments.values)
        variant, run, _ = family.run(arguments.values, True)
        if variant is not None and run is not None:
            is_new = variant.trial is not None and variant.trial.is_new
            if (variant.checked or owner._verify == "never") and not is_new:
                owner._count_hit(family, variant, arguments.values)
                return variant, run
            run.program.end(run)
        try:
            arguments.call(lambda *a, **k: owner._evaluate(a, k, False), arguments.values)
        except Exception:  # a function that runs eagerly may need tensors
            if owner._reason is None:
                raise
        if owner._reason is not None:
            break
        owner._settle(family)
    return None, None


class RecordedCall:
    """A call of a compiled function, held by its row; the sweep calls it (`Sweep.run`).

    It keeps no recorded tensor: its arguments are found by the operands of the row.
    """

    run: Run | None = None  # until its reverse has used it
    program: Program | None = None
    held: Sequence[np.ndarray] = ()  # what the program has read of arrays from outside
    leaves = 0  # of the result, if a graph computes it
    gradients: list | None = None  # of the operands, if the result is one number
    #: For each recorded result its place among the leaves, its output, its shape.
    results: list[tuple[int, int, tuple]]

    def __init__(self, owner, arguments: Arguments | tuple, places: list[int]):
        self.owner, self._given, self.places = owner, arguments, places

    def __str__(self) -> str:
        return self.owner._name

    def __del__(self):
        if self.run is not None:
            self._give_back(self.run)

    def _give_back(self, run: Run) -> None:
        if len(run.program._runs) < _RUNS:
            run.program.hold(run, run.program.code.held)
            run.program.end(run)

    # --- recording ----------------------------------------------------------------------------

    @property
    def arguments(self) -> Arguments:
        """The plain arguments."""
        if isinstance(self._given, tuple):
            self._given = Arguments(self._given, {}, self.owner._argnums)
        return self._given

    def by_input(self, gradients) -> dict[int, Any]:
        """Gradients of the function, as it gives them, by the number of the input."""
        owner = self.owner
        return self.arguments.by_input(gradients, owner._argnums, owner._single)

    def record_number(self, value: float, gradients: dict, operands: list) -> tuple:
        """Append the row of a number, with its gradients by input; the tensor, in a tuple."""
        self.results = [(0, 0, ())]
        self.gradients = [gradients[k] for k in self.places]
        return (self.record([np.array(value)], 0.0, [0.0], operands),)

    def record(self, arrays: list[np.ndarray], tree, leaves: list, operands: list):
        """Append the row; the result of the function."""
        whole = arrays[0] if len(arrays) == 1 else np.concatenate([a.ravel() for a in arrays])
        row = rt.row(_ROW, whole, self, *operands)
        views = self._views(whole)
        parts = [row] if len(views) == 1 else [view_like(row, view) for view in views]
        for (leaf, _, _), part in zip(self.results, parts, strict=True):
            leaves[leaf] = scalar_of(part)
        return tree_build(tree, iter(leaves))

    def _views(self, whole: np.ndarray) -> list[np.ndarray]:
        """The parts of the row's array that the results are, one after the other."""
        if len(self.results) == 1:
            return [whole]
        sizes = [int(np.prod(shape)) for _, _, shape in self.results]
        ends = zip(np.cumsum(sizes), sizes, self.results, strict=True)
        return [whole[end - size : end].reshape(shape) for end, size, (_, _, shape) in ends]

    # --- what the graph asks ------------------------------------------------------------------

    ctx = None

    def index_of(self, base: np.ndarray, view) -> int | None:
        """The result that a view of the row's array is, None if it is another part."""
        for k, part in enumerate(self._views(base)):
            if rt.same_place(part, base if view is None else view):
                return k
        return None

    def operands(self, traversal, number: int) -> list:
        """The row and the view of each recorded input."""
        return traversal.read(number)[1:-1]

    def pass_back(self, traversal, number: int, gradients) -> list:
        """The gradients of the operands for those of the results, as operations on tensors."""
        operands = [traversal.value(number, *pair) for pair in self.operands(traversal, number)]
        parts = [0.0 if one is None else one for one in gradients]
        shapes = [shape for _, _, shape in self.results]
        seeds = [
            np.broadcast_to(part, shape) if not is_tensor(part) else part
            for part, shape in zip(parts, shapes, strict=True)
        ]
        _, back = vjp(self._called, *operands)
        return list(back(tuple(map(scalar_of, seeds))))

    # --- derivatives --------------------------------------------------------------------------

    def _called(self, *operands) -> tuple:
        """The recorded results of the function called as it is."""
        tensors = dict(zip(self.places, operands, strict=True))
        out = self.arguments.call(self.owner._entered, self.arguments.values, tensors)
        leaves = [value for _, value in tree_leaves(out)]
        return tuple([leaves[leaf] for leaf, _, _ in self.results])

    def _adjoints(self, seeds: list[np.ndarray]) -> list:
        """The adjoints of the operands from those of the results."""
        if self.gradients is None:
            adjoints = self._reversed(seeds)
        else:
            adjoints = [gradient * seeds[0] for gradient in self.gradients]
        if all([np.isfinite(one).all() for one in adjoints]):
            return adjoints
        return self._eager_adjoints(seeds)  # 0 times infinity depends on the order of products

    def _reversed(self, seeds: list[np.ndarray]) -> list:
        """The same by the program, or the graph."""
        if self.program is None:
            return self._pulled(seeds)
        run, self.run = self.run, None
        if run is None:
            run = self.program.begin()
            self.program.hold(run, self.held)
            self.program.forward(run, self.arguments.values, True)
        given = {k: seed for seed, (_, k, _) in zip(seeds, self.results, strict=True)}
        outputs = enumerate(self.program.code.outputs)
        every = [given.get(k, np.zeros(one.view.shape)) for k, one in outputs]
        found = self.program.reverse(run, every)
        self._give_back(run)
        return [found[k] for k in self.places]

    def _pulled(self, seeds: list[np.ndarray]) -> list:
        """The same by the graph; eagerly where there is none any more."""
        arguments, adjoint = self.arguments, list[Any]([0.0] * self.leaves)
        for seed, (k, _, _) in zip(seeds, self.results, strict=True):
            adjoint[k] = seed if seed.ndim else float(seed)
        found = by_graph(self.owner, arguments, vjp_of, adjoint)
        if found is None:
            return self._eager_adjoints(seeds)
        adjoints = self.by_input(found[0])
        return [adjoints[k] for k in self.places]

    def _eager_adjoints(self, seeds: list[np.ndarray]) -> list:
        held = [self.arguments.values[k] for k in self.places]
        _, back = vjp(self._called, *held)
        return [value_of(one) for one in back(tuple(map(plain, seeds)))]

    def __call__(self, sweep, number: int) -> None:
        """Pass the adjoint of the row on to its operands, in a sweep."""
        _, *operands, (_, whole) = references_of(sweep, number)
        adjoint_buffers = [sweep.adjoint_buffer(number, view) for view in self._views(whole)]
        rows = [self._adjoints([m[k, ...] for m in adjoint_buffers]) for k in range(sweep.seeds)]
        for (source, view), column in zip(operands, zip(*rows, strict=True), strict=True):
            sweep.add(source, view, np.array(column))

    def write(self, traversal, number: int, adjoint) -> None:
        """Write the adjoints of the operands as rows."""
        base = traversal.base(number)
        if not is_tensor(adjoint):
            adjoint = wrap(np.array(np.broadcast_to(adjoint, base.shape)))
        parts = [
            adjoint if rt.same_place(view, base) else seen_as(adjoint, base, view)
            for view in self._views(base)
        ]
        found = self.pass_back(traversal, number, parts)
        for (source, view), one in zip(self.operands(traversal, number), found, strict=True):
            traversal.add(source, view, one)

    def tangent(self, traversal, number: int):
        """The tangent of the row from those of its operands, an axis of directions first."""
        operands = self.operands(traversal, number)
        values = [traversal.value(number, *pair) for pair in operands]
        seeds = [traversal.tangent(*pair) for pair in operands]
        for k, value in enumerate(values):
            if seeds[k] is None:
                seeds[k] = np.zeros((traversal.directions, *np.shape(value_of(value))))
        with rt.recording():
            inputs = Inputs("jvp", values, tuple(range(len(values))))
            outs = self._called(*inputs.args)
            nested = must_record(outs, inputs) or records(*seeds)
            columns = pushed(outs, inputs, seeds, nested)
        base = traversal.base(number)
        return joined(base, list(zip(columns, self._views(base), strict=True)))
