"""State attached to a row: hooks, and gradients that a result retains.

A `Watch` belongs to the input, or lies in the store with the row, and is freed with it. The sweep
calls the functions in it when it stops at the row (`autograd._engine`).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.tape import store
from .._core.tape.tape import Reader
from .._core.tensor import runtime as rt
from .._core.tensor.trace import refuse
from .._core.tensor.values import Leaf, is_recorded, is_tensor, meta_of, value_of, wrap
from .._derivatives.tape_traversal import Traversal, placed, zeros_for

_numbers = itertools.count()
IN_PROGRAMS = "it registers a hook, which programs do not call"


class RemovableHandle:
    """The handle of a hook: `remove()` removes it; a context that does so, too."""

    def __init__(self, hooks: dict[int, Any], hook: Any):
        self.id: int = next(_numbers)
        self._hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; again does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class RetainedGradient:
    """The gradient that a result retains. It lives as long as its tensor."""

    __slots__ = ("grad", "view", "__weakref__")

    def __init__(self, view):
        self.grad = None
        self.view = view  # a weak reference to the array, None for a scalar


class Watch:
    """Hooks and retained gradients of one row, each in the order of registration."""

    __slots__ = ("hooks", "kept", "before", "after", "accumulated", "metadata")

    def __init__(self):
        self.hooks: dict[int, tuple[Any, Callable]] = {}  # with the view, None for all of it
        self.kept: list[Callable[[], RetainedGradient | None]] = []
        self.before: dict[int, Callable] = {}  # of the node
        self.after: dict[int, Callable] = {}
        self.accumulated: dict[int, Callable] = {}  # of inputs
        self.metadata: dict = {}


def leaf_of(tensor) -> Leaf | None:
    """The hooks of an input, None for other tensors."""
    meta = meta_of(tensor) if type(tensor) is rt.Array and tensor._id >= 0 else None
    return meta if type(meta) is Leaf else None


def watch_row(number: int) -> Watch:
    """The watch of a row that is not an input."""
    slot = number >> layout.ROWS_BITS
    attached = store.attached.setdefault(slot, {})
    if number not in attached:
        attached[number] = store.watched.setdefault(slot, {})[number] = Watch()
    return attached[number]


def forget_row(number: int) -> None:
    """A watched row is used up: no pass reaches it again, and its hooks are never called."""
    watch = store.watched.get(number >> layout.ROWS_BITS, {}).pop(number, None)
    if watch is not None:  # no other thread's pass was first
        watch.hooks.clear()
        watch.before.clear()
        watch.after.clear()


def watch_leaf(leaf: Leaf) -> Watch:
    """The watch of an input."""
    if leaf.watch is None:
        leaf.watch = Watch()
    return leaf.watch


def watches() -> list[tuple[int, Watch]]:
    """All rows that are watched and not used up, inputs not among them."""
    return [pair for rows in list(store.watched.values()) for pair in list(rows.items())]


def version_of(reader: Reader, number: int, view) -> int:
    """The row that gave a view of a buffer its present value: the last write into it, or its own.

    A view of None is the whole buffer.
    """
    writes = reader.writes(number)
    if view is not None and writes and not rt.same_place(view, reader.base(number)):
        traversal = Traversal(())
        writes = [write for write in writes if _meets(traversal, number, write, view)]
    return writes[-1] if writes else number


def _meets(traversal: Traversal, number: int, write: int, view: np.ndarray) -> bool:
    """Whether a write to a buffer changes elements of a view of it."""
    (_, written), *others = traversal.read(write)
    picked = others[2][1] if len(others) > 2 else None
    if picked is None or not np.may_share_memory(written, view):
        return np.shares_memory(written, view)
    base = traversal.base(number)
    memory, flat = zeros_for(base), np.zeros(written.size, base.dtype)
    flat[picked.ravel()] = 1.0
    placed(memory, base, written)[...] = flat.reshape(written.shape)
    return bool(placed(memory, base, view).any())


def _watch_version(tensor) -> Watch:
    return watch_row(version_of(Reader(), tensor._id, part_of(tensor)))


def part_of(tensor):
    """The part of its row that a tensor is: a view, or None for all of it."""
    return tensor._array if type(tensor) is rt.Array else None


def called(hook, gradient, name="register_hook"):
    """The gradient after a hook: its result, or its argument."""
    returned = hook(gradient)
    return gradient if returned is None else fitting(returned, gradient, hook, name)


def fitting(returned, gradient, hook, name):
    """The result of a hook, as a tensor like the gradient."""
    who = getattr(hook, "__name__", type(hook).__name__)
    value = np.asarray(value_of(returned)) if _is_number(returned) else None
    if value is None or value.dtype.kind not in "fiub":
        raise TypeError(
            f"tapegrad.{name}: the hook {who} returned {type(returned).__name__}; it must return a "
            "tensor, or None to leave the gradient unchanged"
        )
    if value.shape != gradient.shape:
        raise RuntimeError(
            f"tapegrad.{name}: the hook {who} returned shape {value.shape}, the gradient has "
            f"{gradient.shape}; they must be equal"
        )
    return returned if is_tensor(returned) else wrap(np.array(value, gradient.dtype))


def _is_number(value) -> bool:
    return is_tensor(value) or isinstance(value, (np.ndarray, np.generic, int, float))


def _check_callable(name, hook) -> None:
    if not callable(hook):
        raise TypeError(
            f"tapegrad.{name}: the hook has type {type(hook).__name__}; it must be a function of "
            "the gradient"
        )


def register_hook(self, hook) -> RemovableHandle:
    """Register a function that backward passes call with the gradient of this tensor.

    Parameters
    ----------
    hook : callable
        A function of the gradient. If it returns a tensor, of the same shape, that replaces the
        gradient.

    Returns
    -------
    RemovableHandle
        Its method `remove` unregisters the hook.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.

    Notes
    -----
    Hooks of a tensor are called in the order of registration, before the pass continues; hooks of
    inputs are called after those of results. The gradient of a view is that of its elements.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> handle = x.register_hook(lambda gradient: 2 * gradient)
    >>> (x * x).backward()
    >>> x.grad
    tensor(12.)
    >>> handle.remove()
    """
    if not is_recorded(self):
        raise RuntimeError(
            "tapegrad.register_hook: the tensor does not require grad, so no gradient ever reaches "
            "it; make it with requires_grad=True"
        )
    _check_callable("register_hook", hook)
    refuse(IN_PROGRAMS)
    leaf = leaf_of(self)
    if leaf is not None:
        return RemovableHandle(watch_leaf(leaf).hooks, (None, hook))
    return RemovableHandle(_watch_version(self).hooks, (part_of(self), hook))


def register_post_accumulate_grad_hook(self, hook) -> RemovableHandle:
    """Register a function that backward passes call after they have added to `grad` of this input.

    Parameters
    ----------
    hook : callable
        A function of the tensor.

    Returns
    -------
    RemovableHandle
        Its method `remove` unregisters the hook.

    Raises
    ------
    RuntimeError
        If the tensor is not an input with requires_grad=True.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
    >>> (x * x).backward()
    tensor(6.)
    """
    _check_callable("register_post_accumulate_grad_hook", hook)
    refuse(IN_PROGRAMS)
    leaf = leaf_of(self)
    if leaf is None:
        raise RuntimeError(
            "tapegrad.register_post_accumulate_grad_hook: the tensor is not an input made with "
            "requires_grad=True, so nothing is added to its grad; use register_hook"
        )
    return RemovableHandle(watch_leaf(leaf).accumulated, hook)


def kept_of(tensor) -> RetainedGradient | None:
    """The gradient that a result retains, None if it does not."""
    if type(tensor) is rt.Array:
        meta = meta_of(tensor)
        return meta if type(meta) is RetainedGradient else None
    watch = store.attached.get(tensor._id >> layout.ROWS_BITS, {}).get(tensor._id)
    return watch.kept[0]() if watch and watch.kept else None


def retain_grad(self) -> None:
    """Accumulate the gradient of this result in `grad`, as for inputs.

    It has no effect on inputs.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> y.retain_grad()
    >>> (2 * y).backward()
    >>> y.grad
    tensor(2.)
    """
    if not is_recorded(self):
        raise RuntimeError(
            "tapegrad.retain_grad: the tensor does not require grad, so it has no gradient to "
            "retain; make it with requires_grad=True"
        )
    if leaf_of(self) is not None or kept_of(self) is not None:
        return
    refuse("it retains a gradient (retain_grad)")
    if type(self) is rt.Array:
        kept = self._meta = RetainedGradient(weakref.ref(self._array))
        watch_row(self._id).kept.append(weakref.ref(kept))
    else:
        kept = RetainedGradient(None)
        watch_row(self._id).kept.append(lambda: kept)


METHODS: dict[str, Any] = {
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "retain_grad": retain_grad,
    "retains_grad": property(
        lambda self: is_recorded(self) and kept_of(self) is not None,
        doc="Whether `retain_grad` was called on this result.",
    ),
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)
