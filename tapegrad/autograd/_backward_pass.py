"""One backward pass: adjoints carried from roots to inputs, with hooks and retained gradients.

The pass halts at rows with hooks, retained gradients or requested gradients. `Swept` runs the
compiled sweep, `Recorded` writes the adjoints as rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.codegen import layout, process
from .._core.operations import PUBLIC
from .._core.remembered import remembered
from .._core.tape import store
from .._core.tape.sweeps import Sweep, Writing
from .._core.tape.tape import Reader, needed
from .._core.tensor import runtime as rt
from .._core.tensor.values import before_write, is_recorded, is_tensor, value_of, wrap
from .._derivatives.recorded_reverse import adjoints_if_reached, plant, run
from .._derivatives.tape_traversal import Traversal, in_zeros, seen_as
from ._hooks import Kept, Watch, called, fitting, forget_row, part_of, version_of, watches
from .grad_mode import no_grad
from .graph import node_at

_adding = process.lock()  # passes of several threads may meet at an input


class Target:
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

    def __init__(self, targets: Sequence[Target], accumulate):
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

    def _keeping(self) -> dict[int, list[Kept]]:
        """The gradients that results retain, by the rows that gave them their values."""
        keeping: dict[int, list[Kept]] = {}
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


class Recorded(Pass):
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
