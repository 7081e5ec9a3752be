"""`ctx`, the state of a `Function` from its forward for its backward."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .._core.tape import store
from .._core.tensor import runtime as rt
from .._core.tensor.aliases import rely
from .._core.tensor.copies import view_like
from .._core.tensor.values import is_recorded, is_tensor, value_of, wrap
from .._derivatives.tape_traversal import Traversal
from .._derivatives.view_layouts import cast


class _Saved:
    """The place of a recorded tensor that `ctx` holds: an operand of the row, or a result."""

    def __init__(self, kind: str, number: int, tensor):
        self.kind, self.number = kind, number
        self.shape, self.dtype = tensor.shape, tensor.dtype


class _Constant:
    """A tensor that is not recorded, as it was saved: a copy as soon as it is to be written."""

    def __init__(self, tensor):
        self.tensor = tensor
        rely(tensor, self)

    def before_write(self, array) -> bool:
        self.tensor = self.tensor.copy()
        return False


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
        self._dirty: tuple = ()
        self._constant: tuple = ()
        self._materialize = True
        self._packed: dict[str, _Saved] = {}
        self._is_packed = True  # whether all that backward finds is arguments and results
        self._held: dict = {}
        self._given: list = []
        self._traversal: Any = None
        self._number = -1

    def save_for_backward(self, *tensors) -> None:
        """Save tensors for `saved_tensors`; a later call replaces an earlier one.

        Parameters
        ----------
        *tensors : Tensor or None
            The tensors.

        Raises
        ------
        TypeError
            If an argument is neither a tensor nor None.
        """
        for tensor in tensors:
            if tensor is not None and not is_tensor(tensor):
                raise TypeError(
                    "tapegrad.save_for_backward: an argument has type "
                    f"{type(tensor).__name__}; it saves tensors and None: set other values as "
                    "attributes of ctx"
                )
        self._saved = tensors

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
        """Replace recorded tensors by where they are found; returns the operands of the row.

        A tensor stored here would keep the row alive that keeps this object alive.
        """
        operands = [arg for arg in args if is_recorded(arg)]

        def packed(value):
            for place, k in enumerate(outputs):
                if value is results[k]:
                    return _Saved("result", place, value)
            for k, alias in enumerate(self._given):
                if value is alias and is_recorded(args[k]):
                    value = args[k]
            if not is_tensor(value) or not is_recorded(value):
                return value
            for k, one in enumerate(operands):
                if value is one:
                    return _Saved("operand", k, value)
            operands.append(value)
            return _Saved("operand", len(operands) - 1, value)

        self._saved = tuple([packed(one) for one in self._saved])
        known = [None, *args]
        self._is_packed = all(
            type(one) is _Saved or any(one is x for x in known) for one in self._saved
        )
        self._keep()
        for name, value in list(vars(self).items()):
            if not name.startswith("_") and type(found := packed(value)) is _Saved:
                self._packed[name] = found
                del self.__dict__[name]
            elif not name.startswith("_") and name != "needs_input_grad":
                self._is_packed = False
        return operands

    def _keep(self) -> None:
        """Forget what was only for the call of forward; later writes do not change the rest."""
        self._saved = tuple([_kept(one) for one in self._saved])
        self._given = []
        self._dirty = self._constant = ()

    @contextlib.contextmanager
    def _at(self, traversal: Traversal, number: int):
        """The traversal that reads saved values from this row, inside."""
        before = self._traversal, self._number
        self._traversal, self._number = traversal, number
        try:
            yield
        finally:
            self._traversal, self._number = before

    def __getattr__(self, name: str):
        packed = self.__dict__.get("_packed", {})
        if name not in packed:
            raise AttributeError(
                f"tapegrad.Function: ctx has no attribute {name}; set it in forward, or in "
                "setup_context"
            )
        return self._unpacked(packed[name])

    def _unpacked(self, saved):
        if type(saved) is _Constant:
            return saved.tensor
        if type(saved) is not _Saved:
            return saved
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


def _kept(saved):
    """A saved value that later writes do not change."""
    return _Constant(saved) if type(saved) is rt.Array else saved


def _tensor(value):
    return value if is_tensor(value) else wrap(np.asarray(value))


def _input_at(number: int, view):
    """The input on a row if it is all of it that was saved."""
    reference = store.leaves.get(number)
    leaf = reference() if reference else None
    if leaf is None or view is None or not rt.same_place(leaf._array, view):
        return None
    return leaf
