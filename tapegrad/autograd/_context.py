"""`ctx`, the state of a `Function` from its forward for its backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations.creation import asarray
from .._core.tape import store
from .._core.tensor import runtime as rt
from .._core.tensor.copies import view_like
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.values import array_of, is_recorded, is_tensor, rely, value_of, wrap
from .._derivatives.tape_traversal import Traversal, cast

#: What `save_for_backward` makes a tensor of.
_PLAIN = (np.ndarray, np.generic, int, float)


class _Saved:
    """The place of a tensor that `ctx` holds: an operand of the row, or a result.

    `given` is what was saved, where that is a plain value: a derivative that is recorded gets the
    tensor in its place.
    """

    def __init__(self, kind: str, number: int, dtype: np.dtype, given: Any = None):
        self.kind, self.number, self.dtype, self.given = kind, number, dtype, given


class _Constant:
    """A tensor that is not recorded, as it was saved: a copy as soon as it is to be written."""

    def __init__(self, tensor):
        self.tensor = tensor
        rely(tensor, self)

    def before_write(self, array) -> bool:
        self.tensor = self.tensor.copy()
        return False


class _Computed:
    """A value that is no place: values that forward has computed, containers.

    `name` is that of the attribute, or the number among saved tensors. `places` has a `_Saved` for
    each leaf that is one.
    """

    def __init__(self, value, name: str | int, places: list):
        self.value, self.name, self.places = value, name, places

    def __str__(self) -> str:
        return f"ctx.{self.name}" if type(self.name) is str else "a tensor in ctx.saved_tensors"


class Context:
    """The `ctx` of a `Function`, in which `forward` saves values for `backward`.

    Attributes of any name may be set.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        Whether the gradient of each argument is needed.
    """

    def __init__(self, needs: tuple[bool, ...]):
        self.needs_input_grad = needs
        self._saved: tuple = ()
        self._plain: frozenset[int] = frozenset()  # which of them were plain arrays or numbers
        self._dirty: tuple = ()
        self._constant: tuple = ()
        self._materialize = True
        self._packed: dict[str, _Saved] = {}
        self._is_packed = True  # whether all that backward finds is arguments and results
        self._held: dict = {}
        self._given: list = []
        self._returned: list = []  # by forward, as it did
        self._traversal: Any = None
        self._number = -1
        self._marked: Callable | None = None  # while a derivative is recorded

    def save_for_backward(self, *tensors) -> None:
        """Save tensors for `saved_tensors`; a later call replaces an earlier one.

        Parameters
        ----------
        *tensors : Tensor, ndarray, float or None
            The tensors. An array of NumPy is saved as it is at the end of `forward`. Arrays and
            numbers are tensors in `saved_tensors`.

        Raises
        ------
        TypeError
            If an argument is none of these.
        """
        plain = [k for k, one in enumerate(tensors) if isinstance(one, _PLAIN)]
        saved = [asarray(one) if k in plain else one for k, one in enumerate(tensors)]
        for tensor in saved:
            if tensor is not None and not is_tensor(tensor):
                raise TypeError(
                    "tapegrad.save_for_backward: an argument has type "
                    f"{type(tensor).__name__}; it saves tensors, arrays, numbers and None: set "
                    "other values as attributes of ctx"
                )
        self._saved, self._plain = tuple(saved), frozenset(plain)

    @property
    def saved_tensors(self) -> tuple:
        """The values saved by `save_for_backward`, as a tuple.

        Raises
        ------
        RuntimeError
            If a backward pass has used up the row.
        """
        return tuple([self._unpacked(one) for one in self._saved])

    def mark_dirty(self, *tensors) -> None:
        """Declare that arguments were written in place; they must be returned too.

        Parameters
        ----------
        *tensors : Tensor
            The arguments.
        """
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors) -> None:
        """Declare that results have no derivative; `backward` gets zeros for them.

        Parameters
        ----------
        *tensors : Tensor
            The results.
        """
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether the gradients of unused results are zeros or None.

        Parameters
        ----------
        value : bool
            Whether they are zeros.
        """
        self._materialize = bool(value)

    def _pack(self, args, results, outputs) -> list:
        """Replace tensors by where they are found; returns the operands of the row.

        A tensor stored here would keep the row alive that keeps this object alive.
        """
        operands = [arg for arg in args if is_recorded(arg)]

        def packed(value):
            kind, k = self._place(value, results, outputs) or ("", -1)
            if kind == "result":
                result = results[outputs[k]]
                return _Saved(kind, k, result.dtype, None if value is result else value)
            found = args[k] if kind else value
            if not is_tensor(found) or not is_recorded(found):
                return value
            number = next((n for n, one in enumerate(operands) if found is one), len(operands))
            if number == len(operands):
                operands.append(found)
            is_plain = kind and value is not found and value is not self._given[k]
            return _Saved("operand", number, found.dtype, value if is_plain else None)

        self._saved = tuple([packed(one) for one in self._saved])
        self._is_packed = all(one is None or _is_place(one, args) for one in self._saved)
        for name in [one for one in vars(self) if not one.startswith("_")]:
            found = packed(value := vars(self)[name])
            if type(found) is not _Saved and name != "needs_input_grad":
                self._is_packed = self._is_packed and _is_place(found, args)
                if not any(value is arg for arg in args) and any(map(is_computed, _leaves(value))):
                    found = _Computed(value, name, [*map(packed, _leaves(value))])
            if type(found) in (_Saved, _Computed):
                self._packed[name] = found
                del self.__dict__[name]
        self._keep(args)
        return operands

    def _place(self, value, results, outputs) -> tuple[str, int] | None:
        """The number of the recorded result, or of the argument, that a value is."""
        arguments = [("argument", k, one, one) for k, one in enumerate(self._given)]
        found = [("result", n, results[k], self._returned[k]) for n, k in enumerate(outputs)]
        is_written = any(value is one for one in self._dirty)  # its new value is a result
        known = [*found, *arguments] if is_written else [*arguments, *found]
        for kind, k, one, given in known:
            if value is one or value is given:
                return kind, k
        return next(((kind, k) for kind, k, one, _ in known if _is_at(value, one)), None)

    def _places(self, results, outputs) -> list:
        """The place of each value that backward finds."""
        names = sorted(name for name in vars(self) if not name.startswith("_"))
        values = [*self._saved, *[vars(self)[name] for name in names]]
        return [len(self._saved), *names, *[self._place(x, results, outputs) for x in values]]

    def _keep(self, args=()) -> None:
        """Forget what was only for the call of forward; later writes do not change the rest."""
        saved = list(self._saved)
        for k in self._plain:  # writes to them are not heard of
            saved[k] = saved[k].copy() if type(saved[k]) is rt.Array else saved[k]
        self._saved = tuple([_kept(k, one, args) for k, one in enumerate(saved)])
        self._given = self._returned = []
        self._dirty = self._constant = ()

    def _computed(self) -> dict[str | int, Any]:
        """The values that forward has computed, by name."""
        found = [one for one in (*self._saved, *self._packed.values()) if type(one) is _Computed]
        return {one.name: self._unpacked(one.value) for one in found}

    def _as_kept(self, name: str | int) -> Any:
        """The value of that name, just after forward."""
        return vars(self)[name] if isinstance(name, str) else self._saved[name]

    @contextlib.contextmanager
    def _at(self, traversal: Traversal, number: int, marked: Callable | None = None):
        """The traversal that reads saved values from this row, inside.

        `marked(value, computed, k)` marks leaf `k` of what forward has computed, in a derivative
        that is recorded.
        """
        before = self._traversal, self._number, self._marked
        self._traversal, self._number, self._marked = traversal, number, marked
        try:
            yield
        finally:
            self._traversal, self._number, self._marked = before

    def __getattr__(self, name: str):
        packed = self.__dict__.get("_packed", {})
        if name not in packed:
            raise AttributeError(
                f"tapegrad.Function: ctx has no attribute {name}; set it in forward, or in "
                "setup_context"
            )
        return self._unpacked(packed[name])

    def _unpacked(self, saved):
        marked = self._marked if rt.is_recording() else None
        if type(saved) is _Computed:
            value = self._unpacked(saved.value)
            return value if marked is None else self._marks(value, saved, marked)
        if type(saved) is _Constant:
            return saved.tensor
        if type(saved) is not _Saved:
            return saved
        if saved.given is not None and marked is None:
            return saved.given
        traversal = self._traversal or Traversal(())
        if traversal.reader.row(self._number)["op"] < 0:
            raise RuntimeError(
                "tapegrad.saved_tensors: the tensors were freed by a backward pass; call it with "
                "retain_graph=True to read them again"
            )
        if saved.kind == "result":
            whole = traversal.base(self._number)
            made = _tensor(traversal.value(self._number, self._number, whole))
            call = traversal.read(self._number)[0][1]
            return cast(view_like(made, call.views(value_of(made))[saved.number]), saved.dtype)
        source, view = traversal.read(self._number)[1 + saved.number]
        leaf = _input_at(source, view)
        return _tensor(traversal.value(self._number, source, view)) if leaf is None else leaf

    def _marks(self, value, saved: _Computed, marked: Callable):
        """A value with each number that forward has computed marked."""
        made = []
        for k, (one, place) in enumerate(zip(_leaves(value), saved.places, strict=True)):
            if type(place) is _Saved:
                one = self._unpacked(place)
            elif is_computed(one) and not is_recorded(one):
                one = marked(one, saved, k)
            made.append(one)
        return tree_build(value, iter(made))


def _kept(k: int, saved, args):
    """A saved value that later writes do not change."""
    if not is_tensor(saved):
        return saved
    kept = _Constant(saved) if type(saved) is rt.Array else saved
    if any(saved is arg for arg in args) or not is_computed(saved):
        return kept
    return _Computed(kept, k, [None])


def _is_place(value, args) -> bool:
    """Whether a value is found by its place: a result, or an argument that is no Python number."""
    is_array = is_tensor(value) or isinstance(value, (np.ndarray, float)) or callable(value)
    return type(value) is _Saved or (
        is_array and any(value is arg or _is_at(value, arg) for arg in args)
    )


def _is_at(value, other) -> bool:
    """Whether a value is the elements of another: of a tensor that was detached, for instance."""
    if isinstance(value, np.ndarray) or type(value) is rt.Array:
        array, memory = array_of(value), value_of(other)
        alike = isinstance(memory, np.ndarray) and array.dtype == memory.dtype and array.size
        return bool(alike and rt.same_place(array, memory))
    return False


def is_computed(value) -> bool:
    """Whether a derivative can be lost in a value that forward keeps: in floats."""
    if is_tensor(value) or isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "fc"
    return isinstance(value, float)


def _leaves(value) -> list:
    return [leaf for _, leaf in tree_leaves(value)]


def _tensor(value):
    return value if is_tensor(value) else wrap(np.asarray(value))


def _input_at(number: int, view):
    """The input on a row if it is all of it that was saved."""
    reference = store.leaves.get(number)
    leaf = reference() if reference else None
    if leaf is None or view is None or not rt.same_place(leaf._array, view):
        return None
    return leaf
