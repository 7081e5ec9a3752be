"""`backward` and `grad` under PyTorch's names, and the backward passes that they make."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.codegen import layout, process
from .._core.operations import PUBLIC
from .._core.remembered import remembered
from .._core.tape import store
from .._core.tape.sweeps import Sweep, Writing
from .._core.tape.tape import Reader, needed
from .._core.tensor import runtime as rt
from .._core.tensor.trace import refuse
from .._core.tensor.values import (
    ComplexTensor,
    before_write,
    combined,
    is_recorded,
    is_tensor,
    value_of,
    wrap,
)
from .._derivatives.recorded_reverse import HOOKED, adjoints_if_reached, plant, run, seed_of
from .._derivatives.tape_traversal import Traversal, in_zeros, seen_as
from ._hooks import (
    RetainedGradient,
    Watch,
    called,
    fitting,
    forget_row,
    kept_of,
    leaf_of,
    part_of,
    retain_grad,
    version_of,
    watches,
)
from .grad_mode import no_grad
from .graph import node_at

# --- backward pass --------------------------------------------------------------------------------
# One backward pass: adjoints carried from roots to inputs, with hooks and retained gradients.
#
# The pass halts at rows with hooks, retained gradients or requested gradients. `Swept` runs the
# compiled sweep, `RecordedPass` writes the adjoints as rows.

_adding = process.lock()  # passes of several threads may meet at an input


class GradientTarget:
    """A tensor whose gradient is requested: its row, its view, the result."""

    def __init__(self, tensor, reader: Reader):
        self.tensor = tensor
        self.row = tensor._id
        self.view = part_of(tensor)
        self.place = version_of(reader, self.row, self.view)
        self.found: list | None = None  # a gradient per seed


def accumulated(before, gradient):
    """The sum of a gradient and the one that was there, in its memory where it may be."""
    if before is None:
        return gradient if is_recorded(gradient) else wrap(np.array(value_of(gradient)))
    if is_recorded(before) or is_recorded(gradient) or type(before) is rt.Scalar:
        return before + gradient
    before_write(before)
    np.add(before._array, value_of(gradient), out=before._array, casting="same_kind")
    return before


class Pass:
    """The tasks at rows, for either kind of pass."""

    def __init__(self, targets: Sequence[GradientTarget], accumulate):
        self.targets = targets
        self.accumulate = accumulate  # whether to add to `grad` of an input, by its tensor
        self.arriving: dict[int, Any] = {}  # inputs by the rows that the pass has reached
        self.goals = {row for target in targets for row in (target.row, target.place)}
        self.watched: dict[int, Watch] = dict(watches())
        if targets:  # as in PyTorch, other hooks are not called
            on_the_way = self._leading(self.watched, self.goals)
            self.watched = {n: watch for n, watch in self.watched.items() if n in on_the_way}
        self.keeping = self._keeping()
        self.ends = self._ends() if targets else set()

    def _keeping(self) -> dict[int, list[RetainedGradient]]:
        """The gradients that results retain, by the rows that gave them their values."""
        keeping: dict[int, list[RetainedGradient]] = {}
        for number, watch in self.watched.items():
            for kept in filter(None, [kept() for kept in watch.kept]):
                view = None if kept.view is None else kept.view()
                place = version_of(self.traversal.reader, number, view)
                keeping.setdefault(place, []).append(kept)
        return keeping

    @remembered
    def traversal(self) -> Traversal:
        """Rows and their versions when the pass begins."""
        return Traversal(())

    def is_input(self, number: int) -> bool:
        return number >> layout.ROWS_BITS in store.input_slots

    def halts(self) -> list[int]:
        """Rows at which the pass has to halt, inputs not among them."""
        rows = {*self.watched, *self.keeping, *(target.place for target in self.targets)}
        return [number for number in rows if not self.is_input(number)]

    def _ends(self) -> set[int]:
        """Rows with hooks before which there is no requested row."""
        ends = set()
        rows = {target.row for target in self.targets}
        for target in self.targets:
            if not self.is_input(target.row) and not self._leading(
                [target.row], rows - {target.row}
            ):
                ends.add(target.place)
        return ends

    def _leading(self, numbers, goals: set[int]) -> set[int]:
        """The rows that are goals, or depend on one."""
        if not goals or not numbers:
            return set()
        with Writing(goals) as writing:
            if not writing.meets_writes:
                return {n for n in numbers if writing.marks[n] & (layout.ACTIVE | layout.STOP)}
        # Marks pass from a row to its readers, not to those of a buffer that it writes.
        reader = self.traversal.reader
        return {n for n in numbers if not goals.isdisjoint(needed(reader, [n], goals))}

    def read(self, number: int, view) -> list:
        """The gradient of a row, or of the view of its buffer, as a tensor for each seed."""
        raise NotImplementedError

    def replace(self, number: int, view, gradients: list) -> None:
        """Set what `read` reads."""
        raise NotImplementedError

    def send(self, node, gradients: list) -> None:
        """Add gradients to those of a node's operands and forget its own."""
        raise NotImplementedError

    def buffer(self, place: int) -> int:
        """The row whose adjoint is meant at a halt: that of the buffer, where it is written."""
        written = self.traversal.reader.buffer_written(place)
        return place if written < 0 else written

    def visit(self, place: int, number: int) -> None:
        """Call the hooks of a row that the pass has reached, and store requested gradients.

        The adjoint is that of row `number`.
        """
        leaf = self.leaf(number)
        if leaf is not None and self.targets and number not in self.goals:
            return
        own = self.watched.get(place), leaf._meta.watch if leaf is not None else None
        watching = [watch for watch in own if watch is not None]
        for watch in watching:
            for view, hook in list(watch.hooks.values()):
                self._change(number, view, functools.partial(called, hook))
        for kept in self.keeping.get(place, ()):
            view = None if kept.view is None else kept.view()
            kept.grad = accumulated(kept.grad, self.read(number, view)[-1])
        for watch in watching:
            for hook in list(watch.before.values()):
                self._change(number, None, functools.partial(_called_before, hook))
        for target in self.targets:
            if target.place == place:
                target.found = self.read(number, target.view)
        if leaf is not None and self.accumulate(leaf):
            self._add_to_leaf(leaf, self.read(number, None)[-1])
        elif any(watch.after for watch in watching) and place not in self.ends:
            self._differentiate(place, watching, self.read(number, None))

    def leaf(self, number: int):
        """The input that lives on a row, None if there is none."""
        if number in self.arriving:
            return self.arriving[number]
        reference = store.leaves.get(number)
        return reference() if reference else None

    def arrive(self, numbers: list[int]) -> None:
        """The tasks at the inputs that the pass has reached.

        A hook may write inputs, which gives them other rows.
        """
        self.arriving = {number: self.leaf(number) for number in numbers}
        for number, leaf in self.arriving.items():
            self._arrive(number, leaf)

    def _arrive(self, number: int, leaf) -> None:
        """The tasks at an input."""
        self.visit(number, number)

    def _change(self, number, view, hook) -> None:
        before = self.read(number, view)
        after = [hook(gradient) for gradient in before]
        if any(new is not old for new, old in zip(after, before, strict=True)):
            self.replace(number, view, after)

    def _add_to_leaf(self, leaf, gradient) -> None:
        meta, watch = leaf._meta, leaf._meta.watch
        with _adding:
            meta.grad = accumulated(meta.grad, gradient)
        if watch is not None:
            for hook in list(watch.accumulated.values()):
                hook(leaf)
            for hook in list(watch.after.values()):
                hook((), (gradient,))

    def _differentiate(self, place: int, watching, gradients) -> None:
        """Pass on the adjoint of a row whose node has hooks that see the gradients of operands."""
        node = node_at(self.traversal.reader, place)
        sent = []
        for gradient in gradients:
            inputs = node.gradients((gradient,))
            for watch in watching:
                for hook in list(watch.after.values()):
                    returned = hook(inputs, (gradient,))
                    inputs = inputs if returned is None else _fitting_all(returned, inputs, hook)
            sent.append(inputs)
        self.send(node, sent)


def _called_before(hook, gradient):
    returned = hook((gradient,))
    if returned is None:
        return gradient
    one = returned[0] if isinstance(returned, tuple) else returned
    return fitting(one, gradient, hook, "register_prehook")


def _fitting_all(returned, inputs, hook):
    returned = returned if isinstance(returned, tuple) else (returned,)
    if len(returned) != len(inputs):
        raise RuntimeError(
            f"tapegrad.register_hook: the hook {getattr(hook, '__name__', hook)} returned "
            f"{len(returned)} gradients, but the node has {len(inputs)} operands"
        )
    return tuple(
        new if new is None or old is None else fitting(new, old, hook, "register_hook")
        for new, old in zip(returned, inputs, strict=True)
    )


class Swept(Pass):
    """A pass by the compiled sweep, of several seeds at once."""

    def run(self, roots, seeds, retain: bool) -> None:
        """Sweep; `seeds` have one axis more than the roots, of the same size for all."""
        with Sweep(seeds=len(seeds[0]), retain=retain) as self.sweep:
            for root, seed in zip(roots, seeds, strict=True):
                plant(self.sweep, root, seed)
            halts = {number: functools.partial(self._halt, number) for number in self.halts()}
            run(self.sweep, halts)
            self.arrive(self.sweep.touched_inputs())
        if not retain:
            self._forget_used()

    def visit(self, place, number):
        with no_grad():  # hooks are not recorded
            super().visit(place, number)

    def _arrive(self, number: int, leaf) -> None:
        if self.targets or number in self.watched or (leaf is not None and leaf._meta.watch):
            self.visit(number, number)
        elif leaf is not None and self.accumulate(leaf):
            meta, found = leaf._meta, self.sweep.take(number, leaf._array)[-1, ...]
            with _adding:
                meta.grad = wrap(found) if meta.grad is None else accumulated(meta.grad, found)

    def _halt(self, place: int) -> None:
        number = self.buffer(place)
        if self.sweep.is_touched(number):
            self.visit(place, number)
            if place in self.ends:
                self._forget(number)

    def _forget_used(self) -> None:
        for number in self.watched:
            if self.traversal.reader.row(number)["op"] < 0:
                forget_row(number)

    def _memory(self, number: int, view) -> np.ndarray:
        base = self.traversal.base(number)
        if base is None:
            return self.sweep.cell(number)
        return self.sweep.adjoint_buffer(number, base if view is None else view)

    def read(self, number, view):
        memory = self._memory(number, view)
        return [wrap(np.array(memory[k, ...])) for k in range(len(memory))]

    def replace(self, number, view, gradients):
        memory = self._memory(number, view)
        for k, gradient in enumerate(gradients):
            memory[k, ...] = value_of(gradient) + 0.0  # never −0.0, which means not reached

    def send(self, node, gradients):
        number = node.buffer
        for k, (source, operand) in enumerate(node.operands()):
            found = [inputs[k] for inputs in gradients]
            if source >= 0 and any(one is not None for one in found):
                tensor = self.traversal.tensor(source, operand)
                zero = np.zeros(tensor.shape, tensor.dtype)
                seeds = [zero if one is None else np.asarray(value_of(one)) for one in found]
                plant(self.sweep, tensor, np.array(seeds))
        self._forget(number)

    def _forget(self, number: int) -> None:
        """Make a row one that the sweep has not reached."""
        self.sweep.forget(number, self.traversal.base(number) is not None)


class RecordedPass(Pass):
    """A pass that writes adjoints as rows, so that they can be differentiated."""

    def run(self, roots, seeds) -> None:
        """Traverse from each halt to the next, newest first, then to the inputs."""
        self._check_halts(roots)
        self.found: dict = {}
        last = list(store.leaves)
        waiting = sorted(self.halts(), key=self.traversal.reader.time)
        while roots:
            self._carry(roots, seeds, [*waiting, *last])
            roots = []
            while waiting and not roots:
                number = waiting.pop()
                if number in self.found:
                    self.visit(number, number)
                    if number not in self.ends and number in self.found:
                        roots, seeds = [self.traversal.output(number)], [self.found[number]]
        self.arrive([number for number in last if number in self.found])

    def _check_halts(self, roots) -> None:
        """Refuse halts at rows that write to a buffer: no tensor has its old value."""
        reader = self.traversal.reader
        written = {n for n in self.halts() if reader.buffer_written(n) >= 0}
        if written and not written.isdisjoint(needed(reader, [root._id for root in roots])):
            raise NotImplementedError(
                "tapegrad: with create_graph=True a tensor that was written in place has no "
                "gradient and no hooks; use a copy() of it after the write, and take the gradient "
                "of the copy"
            )

    def _carry(self, roots, seeds, numbers) -> None:
        tensors = [self.traversal.output(number) for number in numbers]
        found = adjoints_if_reached(roots, seeds, tensors)
        for number, tensor, adjoint in zip(numbers, tensors, found, strict=True):
            if adjoint is not None:
                before = self.found.get(number)
                adjoint = adjoint if before is None else before + adjoint
                self.found[number] = _as_tensor(adjoint, tensor)

    def read(self, number, view):
        adjoint, base = self.found[number], self.traversal.base(number)
        if base is None or view is None or rt.same_place(view, base):
            return [adjoint]
        return [seen_as(adjoint, base, view)]

    def replace(self, number, view, gradients):
        (gradient,) = gradients
        (before,) = self.read(number, view)
        if before is self.found[number]:
            self.found[number] = gradient
        else:
            change = in_zeros(self.traversal.base(number), view, gradient - before)
            self.found[number] = self.found[number] + change

    def send(self, node, gradients):
        raise NotImplementedError(
            "tapegrad.register_hook: hooks of a grad_fn are not called with create_graph=True; "
            "register the hook on the tensor, or its operands"
        )


def _as_tensor(adjoint, tensor):
    """An adjoint as a tensor of the shape and dtype of its tensor."""
    if not is_tensor(adjoint):
        value = np.broadcast_to(np.asarray(adjoint, tensor.dtype), tensor.shape)
        return wrap(np.array(value))
    return (
        adjoint if adjoint.shape == tensor.shape else PUBLIC["broadcast_to"](adjoint, tensor.shape)
    )


# --- complex inputs -------------------------------------------------------------------------------
# Derivatives with respect to complex tensors: those of their parts, combined.


def holds_complex(inputs) -> bool:
    """Whether an input, or one of several, is complex."""
    given = inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return any(type(one) is ComplexTensor for one in given)


def by_parts(derive: Callable[[list], tuple], inputs, name: str, allowed: bool) -> tuple:
    """`derive` applied to the recorded parts of inputs, None where nothing depends on one."""
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    parts: list = []
    places: list[list] = []
    for one in given:
        own = [one._re, one._im] if type(one) is ComplexTensor else [one]
        kept = [part for part in own if is_recorded(part) or len(own) == 1]
        places.append([next((k for k, x in enumerate(kept) if x is p), None) for p in own])
        places[-1] = [None if k is None else k + len(parts) for k in places[-1]]
        parts += kept
    found = derive(parts)
    made = []
    for k, (one, own) in enumerate(zip(given, places, strict=True)):
        pair = [None if at is None else found[at] for at in own]
        if all(part is None for part in pair) and not allowed:
            raise RuntimeError(
                f"tapegrad.{name}: the outputs do not depend on input {k}; pass allow_unused=True "
                "to get None for it, or materialize_grads=True for zeros"
            )
        made.append(_joined(one, pair))
    return tuple(made)


def _joined(one, pair: list):
    if len(pair) == 1 or pair == [None, None]:
        return pair[0]
    zeros = np.zeros(one.shape, one._re.dtype)
    return combined(*[zeros if part is None else part for part in pair])


# --- transform hooks ------------------------------------------------------------------------------
# Hooks of rows that transforms reach: `grad`, `vjp`, `jacobian` and others call them, too.
#
# A transform differentiates with respect to its inputs, as `tg.autograd.grad` does, so the hooks of
# rows that depend on one of them are called.


class _Input(GradientTarget):
    """An input of a transform: its value when the function was called."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.row = self.place = tensor._id
        self.view = None
        self.found = None


def _none(leaf) -> bool:
    return False


class _SweptTo(Swept):
    """A sweep whose adjoints a transform reads itself."""

    def _ends(self) -> set[int]:
        return set()  # they are for gradients that the pass itself keeps

    def through(self, sweep: Sweep) -> None:
        self.sweep = sweep
        run(sweep, {number: functools.partial(self._halt, number) for number in self.halts()})
        self._forget_used()


def swept(sweep: Sweep, tensors: list) -> None:
    """Run a sweep that ends at inputs."""
    _SweptTo([_Input(one) for one in tensors], _none).through(sweep)


def recorded(outputs: list, seeds: list, tensors: list) -> list:
    """Adjoints of inputs as recorded tensors, None where the outputs do not depend on them."""
    targets = [_Input(one) for one in tensors]
    found = RecordedPass(targets, _none)
    if any(map(Reader().writes, found.goals)):
        raise NotImplementedError(
            "tapegrad.register_hook: hooks are not called in a second derivative if the function "
            "writes to its argument in place; write to a copy() of it"
        )
    found.run(outputs, seeds)
    return [one.found[0] if one.found else None for one in targets]


def reaches(outputs: list, tensors: list, gradients: bool) -> bool:
    """Whether a row on the way from outputs to inputs has a hook, or retains a gradient."""
    watched = Pass([_Input(one) for one in tensors], _none).watched
    behind = {*needed(Reader(), [one._id for one in outputs])} if watched else set()
    return any(
        watch.hooks or watch.before or watch.after or (gradients and watch.kept)
        for number, watch in watched.items()
        if not behind.isdisjoint((number, Reader().buffer_written(number)))
    )


# --- engine ---------------------------------------------------------------------------------------
# `backward` and `grad` under PyTorch's names, and `grad` of tensors.

HOOKED.update(swept=swept, recorded=recorded, reaches=reaches)


def _listed(name: str, what: str, value) -> list:
    found = list(value) if isinstance(value, (tuple, list)) else [value]
    for one in found:
        if not is_tensor(one):
            raise TypeError(
                f"tapegrad.{name}: {what} has an item of type {type(one).__name__}; it must be a "
                "tensor or a sequence of tensors"
            )
    return found


def _seeds_for(name: str, roots: list, given) -> list:
    """The adjoint that each root starts with."""
    given = [None] * len(roots) if given is None else given
    listed = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(listed) != len(roots):
        raise RuntimeError(
            f"tapegrad.{name}: got {len(listed)} gradients for {len(roots)} outputs; give one for "
            "each, None for an output of one element"
        )
    return [seed_of(name, root, one) for root, one in zip(roots, listed, strict=True)]


def _check_recorded(name: str, roots: list) -> None:
    for root in roots:
        if not is_recorded(root):
            raise RuntimeError(
                f"tapegrad.{name}: the tensor is not recorded; it depends on no input made with "
                "requires_grad=True, or was computed under no_grad()"
            )


def _run(
    roots, seeds, retain: bool, create: bool, targets: list[GradientTarget], accumulate
) -> None:
    """One backward pass for one seed per root; the rows with hooks are those of its beginning."""
    with store.NothingFreed():
        if create:
            with rt.recording():
                RecordedPass(targets, accumulate).run(roots, seeds)
            return
        refuse("a backward pass without create_graph gives detached derivatives", faithful=True)
        plain = [np.asarray(value_of(seed))[None] for seed in seeds]
        Swept(targets, accumulate).run(roots, plain, retain)


def _every_input(leaf) -> bool:
    return True


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None
) -> None:
    """Compute the derivative of the sum of tensors, and add it to `grad` of the inputs.

    The inputs are all inputs on which the tensors depend, or the given ones.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensors
        The tensors that are differentiated.
    grad_tensors : array_like or sequence of them, optional
        The adjoints of the tensors; not needed for tensors with one element.
    retain_graph : bool, optional
        Whether the rows can be used again; by default the value of `create_graph`.
    create_graph : bool, optional
        Whether gradients are recorded, so that they can be differentiated.
    inputs : Tensor or sequence of Tensors, optional
        If given, gradients are accumulated only in these inputs or results.

    Returns
    -------
    None

    Raises
    ------
    RuntimeError
        If a tensor is not recorded, or its rows were used up by a backward pass before.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> tg.autograd.backward([x * x, 2 * x])
    >>> x.grad
    tensor(8.)
    """
    _backward("autograd.backward", tensors, grad_tensors, retain_graph, create_graph, inputs)


def _backward(name, tensors, grad_tensors, retain_graph, create_graph, inputs) -> None:
    roots = _listed(name, "tensors", tensors)
    _check_recorded(name, roots)
    seeds = _seeds_for(name, roots, grad_tensors)
    retain = bool(create_graph if retain_graph is None else retain_graph)
    if inputs is None:
        _run(roots, seeds, retain, create_graph, [], _every_input)
        return
    wanted = _listed(name, "inputs", inputs)
    if not wanted:
        raise RuntimeError(
            f"tapegrad.{name}: inputs is empty; leave it out to reach every input that requires "
            "grad"
        )
    for one in wanted:
        retain_grad(one)
    reader = Reader()
    targets = [GradientTarget(one, reader) for one in wanted]
    leaves = [one for one in wanted if leaf_of(one) is not None]
    _run(
        roots,
        seeds,
        retain,
        create_graph,
        targets,
        lambda leaf: any(leaf is one for one in leaves),
    )


def method_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Compute the derivative of this tensor, and add it to `grad` of the inputs it depends on.

    Parameters
    ----------
    gradient : array_like, optional
        The adjoint of this tensor, in its shape; not needed for tensors with one element.
    retain_graph : bool, optional
        Whether the rows can be used again; by default the value of `create_graph`.
    create_graph : bool, optional
        Whether gradients are recorded, so that they can be differentiated.
    inputs : Tensor or sequence of Tensors, optional
        If given, gradients are accumulated only in these tensors.

    Returns
    -------
    None

    Raises
    ------
    RuntimeError
        If the tensor is not recorded, has several elements while `gradient` is not given, or its
        rows were used up by a backward pass before.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> (x**2).backward()
    >>> x.grad
    tensor(6.)
    """
    _backward("backward", self, gradient, retain_graph, create_graph, inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
) -> tuple:
    """Compute derivatives of the sum of `outputs` with respect to `inputs`.

    `grad` of the inputs does not change.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensors
        The tensors that are differentiated.
    inputs : Tensor or sequence of Tensors
        Inputs, or results of operations.
    grad_outputs : array_like or sequence of them, optional
        The adjoints of the outputs; not needed for tensors with one element.
    retain_graph : bool, optional
        Whether the rows can be used again; by default the value of `create_graph`.
    create_graph : bool, optional
        Whether derivatives are recorded, so that they can be differentiated.
    allow_unused : bool, optional
        Whether the derivative is None for inputs on which the outputs do not depend.
    is_grads_batched : bool, optional
        Whether `grad_outputs` have one more axis in front; the derivatives then have it too.
    materialize_grads : bool, optional
        Whether derivatives are zeros for inputs on which the outputs do not depend.

    Returns
    -------
    tuple of Tensor
        The derivative with respect to each input.

    Raises
    ------
    RuntimeError
        If a tensor is not recorded, or the outputs do not depend on an input and neither
        `allow_unused` nor `materialize_grads` is true.
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> tg.autograd.grad(2 * y, (x, y))
    (tensor(12.), tensor(2.))
    """
    name = "autograd.grad"
    if materialize_grads and allow_unused is False:
        raise ValueError(
            f"tapegrad.{name}: allow_unused=False with materialize_grads=True; materialize_grads "
            "needs allow_unused=True, or None"
        )
    if holds_complex(inputs):
        options = grad_outputs, retain_graph, create_graph, True, is_grads_batched
        derive = functools.partial(_of_parts, outputs, (*options, materialize_grads))
        return by_parts(derive, inputs, name, bool(allow_unused or materialize_grads))
    roots = _listed(name, "outputs", outputs)
    wanted = _listed(name, "inputs", inputs)
    _check_recorded(name, roots)
    for k, one in enumerate(wanted):
        if not is_recorded(one):
            raise RuntimeError(
                f"tapegrad.{name}: input {k} does not require grad; make it with requires_grad=True"
            )
    retain = bool(create_graph if retain_graph is None else retain_graph)
    reader = Reader()
    targets = [GradientTarget(one, reader) for one in wanted]
    if is_grads_batched:
        _batched(name, roots, grad_outputs, retain, create_graph, targets)
    else:
        seeds = _seeds_for(name, roots, grad_outputs)
        _run(roots, seeds, retain, create_graph, targets, lambda leaf: False)
        for target in targets:
            target.found = target.found and target.found[0]
    allowed = allow_unused or materialize_grads
    return tuple(_result(name, k, t, allowed, materialize_grads) for k, t in enumerate(targets))


def _of_parts(outputs, options, parts) -> tuple:
    return grad(outputs, parts, *options)


def _result(name, k, target, allowed, materialize):
    """The derivative to one input."""
    if target.found is None and not allowed:
        raise RuntimeError(
            f"tapegrad.{name}: the outputs do not depend on input {k}; pass allow_unused=True to "
            "get None for it, or materialize_grads=True for zeros"
        )
    if target.found is None and materialize:
        return wrap(np.zeros(target.tensor.shape, target.tensor.dtype))
    return target.found


def _batched(name, roots, given, retain, create, targets) -> None:
    """Derivatives for several seeds at once, stacked along a first axis."""
    listed = list(given) if isinstance(given, (tuple, list)) else [given]
    shapes = [np.shape(value_of(one)) for one in listed]
    counts = {shape[:1] for shape in shapes}
    fit = len(listed) == len(roots) and all(
        s[1:] == root.shape for s, root in zip(shapes, roots, strict=True)
    )
    if not fit or len(counts) != 1:
        raise ValueError(
            f"tapegrad.{name}: with is_grads_batched the grad_outputs have shapes {shapes}; each "
            "must have one axis more in front than its output, of the same length for all: "
            f"the outputs have {[root.shape for root in roots]}"
        )
    ((count,),) = counts
    if not create:
        seeds = [np.asarray(value_of(one)) for one in listed]
        with store.NothingFreed():
            Swept(targets, lambda leaf: False).run(roots, seeds, retain)
        stack: Any = lambda found: wrap(np.stack([value_of(one) for one in found]))
        _stacked(targets, [[t.found for t in targets]], stack)
        return
    rows = []
    for k in range(count):
        for target in targets:
            target.found = None
        _run(roots, [one[k] for one in listed], retain, True, targets, lambda leaf: False)
        rows.append([target.found for target in targets])
    _stacked(targets, rows, PUBLIC["stack"])


def _stacked(targets: list[GradientTarget], rows: Sequence, stack) -> None:
    """Set the result for each target to one tensor; `rows` hold lists of it."""
    for target, found in zip(targets, zip(*rows, strict=True), strict=True):
        parts = [one for part in found if part is not None for one in part]
        target.found = stack(parts) if parts else None


# --- grad of tensors --------------------------------------------------------------------------


def _get_grad(self):
    """The sum of backward passes: the gradient of an input, or of a result that retains it."""
    held = leaf_of(self) or kept_of(self)
    if held is None and is_recorded(self):
        warnings.warn(
            "tapegrad: the grad of a tensor that is not an input was read; backward() sets it only "
            "for inputs made with requires_grad=True: call retain_grad() on the tensor first",
            UserWarning,
            stacklevel=2,
        )
    return held.grad if held is not None else None


def _set_grad(self, value):
    held = leaf_of(self) or kept_of(self)
    if held is None:
        raise RuntimeError(
            "tapegrad: only inputs made with requires_grad=True have a gradient to set"
        )
    if value is not None:
        shape = np.shape(value_of(value))
        if shape != self.shape:
            raise ValueError(
                f"tapegrad: a gradient of shape {shape} does not fit an input of {self.shape}"
            )
        value = wrap(np.array(value_of(value), self.dtype))
    held.grad = value


METHODS = {"backward": method_backward, "grad": property(_get_grad, _set_grad)}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)
