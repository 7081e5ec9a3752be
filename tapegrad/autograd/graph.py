"""`grad_fn`: the rows of the tape as nodes of a graph, under PyTorch's names.

Nodes are made on request; recording does not make any. A node keeps its row alive. A view, which
needs no row, is a node of its own.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .._core.codegen import layout
from .._core.codegen.factory import once_for_each
from .._core.operations import PUBLIC
from .._core.ops.table import TABLE, Pointwise
from .._core.tape import store
from .._core.tape.tape import Reader, name_of_op, name_of_row
from .._core.tensor import runtime as rt
from .._core.tensor.trace import refuse
from .._core.tensor.values import is_recorded, is_tensor, value_of, wrap
from .._derivatives.recorded_reverse import AGAIN, pass_back, site_of, summed_to
from .._derivatives.tape_traversal import Traversal, cast, in_zeros, seen_as, tensor_at
from ._hooks import IN_PROGRAMS, RemovableHandle, Watch, leaf_of, part_of, watch_leaf, watch_row
from ._node_names import name_of

_NUMBER = np.zeros(())  # the array of a row of a number
#: Nodes that are in use: one row, one node.
_nodes: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Node:
    """A step of the recorded computation, as `tensor.grad_fn` and `next_functions` show it.

    Called with the gradients of its results it returns those of its operands, in the order of
    `next_functions`: a tensor, or a tuple of them if there are several.
    """

    def name(self) -> str:
        """PyTorch's name of the operation, such as "MulBackward0"."""
        raise NotImplementedError

    @property
    def next_functions(self) -> tuple:
        """For each operand its node and which of the node's results it is; (None, 0) for constants.

        Raises RuntimeError if a backward pass has used up the rows.
        """
        raise NotImplementedError

    def gradients(self, gradients: tuple) -> tuple:
        """The gradients of the operands for those of the results."""
        raise NotImplementedError

    def _watch(self) -> Watch:
        raise NotImplementedError

    def __call__(self, *gradients):
        results = self.gradients(
            tuple(g if g is None or is_tensor(g) else wrap(g) for g in gradients)
        )
        return results[0] if len(results) == 1 else results

    @property
    def metadata(self) -> dict:
        """A dict for whatever is to be remembered with the node."""
        return self._watch().metadata

    def register_hook(self, hook) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` when a backward pass has passed this node.

        Both are tuples; what it returns, unless None, takes the place of `grad_inputs`, the
        gradients of the operands.
        """
        return RemovableHandle(self._to_be_called().after, hook)

    def register_prehook(self, hook) -> RemovableHandle:
        """Call `hook(grad_outputs)` before a backward pass passes this node.

        Its result, unless None, replaces the gradients of the results.
        """
        return RemovableHandle(self._to_be_called().before, hook)

    def _to_be_called(self) -> Watch:
        """The watch, to which a hook is added."""
        refuse(IN_PROGRAMS)
        return self._watch()

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class _One(Traversal):
    """The rules of `recorded_reverse` for one row: the adjoint of each operand, separately."""

    def __init__(self, operands):
        super().__init__(())
        self.waiting = list(operands)
        self.found: list = [None] * len(self.waiting)

    def add(self, number, view, adjoint) -> None:
        for k, (source, operand) in enumerate(self.waiting):
            same = operand is None or view is None or rt.same_place(operand, view)
            if source == number and same and self.found[k] is None:
                self.found[k] = adjoint
                return


class RowNode(Node):
    """An operation: a row of the tape."""

    def __init__(self, traversal: Traversal, number: int):
        self._number = number
        self._anchor = tensor_at(number)
        self._next: tuple | None = None

    def name(self):
        return type(self).__name__

    @property
    def buffer(self) -> int:
        """The row whose adjoint the node takes: its own, or that of the buffer it writes."""
        written = Reader().buffer_written(self._number)
        return self._number if written < 0 else written

    def _watch(self):
        return watch_row(self._number)

    def operands(self) -> list:
        """(row, view of its buffer or None) for each operand, (−1, anything) for constants."""
        return operands_of(Traversal(()), self._number)

    @property
    def next_functions(self):
        if self._next is None:
            traversal = Traversal(())
            self._next = tuple(
                node_before(traversal, source, view, self._number) if source >= 0 else (None, 0)
                for source, view in operands_of(traversal, self._number)
            )
        return self._next

    def __call__(self, *gradients):
        self._refuse_stale()
        return super().__call__(*gradients)

    def _refuse_stale(self) -> None:
        """Raise if a value that the rule reads was overwritten."""
        traversal = Traversal(())
        writes, time = traversal.reader.writes, traversal.reader.time
        now = time(self._number)
        for source in values_read(traversal, self._number):
            if any(time(w) > now for w in writes(source)):
                raise RuntimeError(
                    f"tapegrad.{self.name()}: a value that the derivative needs was written in "
                    "place since; call backward(), which puts it back, or write to a copy()"
                )

    def gradients(self, gradients):
        operands = self.operands()
        traversal = _One(operands)
        name = name_of_row(traversal.reader, self._number)
        (gradient,) = gradients
        if name == "load":
            return (gradient,)
        if traversal.reader.buffer_written(self._number) >= 0:
            return _through_write(traversal, self._number, gradient)
        pass_back(traversal, self._number, gradient)
        return tuple(
            _shaped(traversal, *pair) for pair in zip(operands, traversal.found, strict=True)
        )


def _shaped(traversal, operand, gradient):
    """A gradient with the shape and dtype of its operand, None for a constant."""
    source, view = operand
    if source < 0:
        return None
    view = _NUMBER if view is None else view
    if gradient is None:
        return wrap(np.zeros(view.shape, view.dtype))
    gradient = cast(gradient, view.dtype)
    gradient = gradient if is_tensor(gradient) else wrap(np.asarray(gradient))
    same = gradient.shape == view.shape
    return gradient if same else PUBLIC["broadcast_to"](gradient, view.shape)


def _through_write(traversal, number: int, gradient):
    """Gradients of the old values of a buffer before a write, and of the written ones."""
    (buffer, view), (_, kept), (source, what), *rest = traversal.read(number)
    base = traversal.base(buffer)
    seen = seen_as(gradient, base, view)
    if rest:
        picked = rest[0][1]
        flat = PUBLIC["reshape"](seen, (-1,))
        part = PUBLIC["reshape"](flat[picked.ravel()], kept.shape)
        mask = np.ones(view.size)
        mask[picked.ravel()] = 0.0
        outside = in_zeros(base, view, seen * (mask.reshape(view.shape) - 1.0))
    else:
        part, outside = seen, in_zeros(base, view, -seen)
    if source < 0:
        return gradient + outside, None
    shape = () if what is None else what.shape
    return gradient + outside, summed_to(part, shape)


def values_read(traversal: Traversal, number: int) -> list[int]:
    """The rows whose values the derivative of a row reads."""
    _, op = traversal.operation(number)
    if op is None or getattr(op, "writes", False):
        return []
    found = traversal.read(number)
    if not isinstance(op, Pointwise) and op.vjp is not None:
        found = [(number, None), *site_of(op, found).operands]
    used = op.used
    return [source for k, (source, _) in enumerate(found) if used >> k & 1 and source >= 0]


class ViewNode(Node):
    """A view of a buffer: other elements, another shape or order, no row."""

    def __init__(self, owner: tuple, base: np.ndarray, view: np.ndarray):
        self._owner, self._base, self._view = owner, base, view

    def name(self):
        return "AsStridedBackward0"

    @property
    def next_functions(self):
        return (self._owner,)

    def gradients(self, gradients):
        return (in_zeros(self._base, self._view, gradients[0]),)

    def _watch(self):
        raise NotImplementedError(
            "tapegrad.grad_fn: a view is not a row of the tape, its node has no hooks or metadata; "
            "register the hook on the tensor, or on the node in next_functions"
        )


class AccumulateGrad(Node):
    """The end of the graph: adds to `grad` of an input, which is its `variable`.

    The variable of a transform's input, and of an input whose tensor was freed, is None.
    """

    def __init__(self, variable):
        self.variable = variable

    def name(self):
        return "AccumulateGrad"

    @property
    def next_functions(self):
        return ()

    def gradients(self, gradients):
        if self.variable is None:
            return ()
        meta = self.variable._meta
        value = np.array(value_of(gradients[0]), self.variable.dtype)
        meta.grad = wrap(value) if meta.grad is None else meta.grad + value
        return ()

    def __call__(self, *gradients):
        self.gradients(gradients)

    def _watch(self):
        if self.variable is None:
            return Watch()
        return watch_leaf(self.variable._meta)

    def _to_be_called(self):
        if self.variable is None:
            raise RuntimeError(
                "tapegrad.grad_fn: the node is the end of the graph at an input of a transform, or "
                "at one that was freed, to which nothing is added; register the hook on the tensor"
            )
        return super()._to_be_called()


class FunctionNode(RowNode):
    """A `Function`, with a gradient for each of its results and the contents of `ctx`."""

    def __init__(self, traversal, number):
        super().__init__(traversal, number)
        self._call = function_at(traversal, number)

    def gradients(self, gradients):
        return self._call.pass_back(Traversal(()), self._number, gradients)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._call.ctx, name)


def operands_of(traversal: Traversal, number: int) -> list:
    """Operands of a row as the graph shows them: (row, view of its buffer or None)."""
    row = traversal.reader.row(number)
    if row["op"] < 0:
        raise RuntimeError(AGAIN)
    name = name_of_row(traversal.reader, number)
    if name == "load":
        return traversal.read(number)[:1]
    if call := function_at(traversal, number):
        return call.operands(traversal, number)
    found = traversal.read(number)
    if isinstance(TABLE.get(name), Pointwise):
        return [pair if pair[0] >= 0 else (-1, None) for pair in found[:-1]]
    buffer = traversal.reader.buffer_written(number)
    if buffer >= 0:
        return [(buffer, traversal.base(buffer)), found[2] if found[2][0] >= 0 else (-1, None)]
    return [pair for pair in found if pair[0] >= 0 and pair[0] != number]


def _one_node(key, make) -> Any:
    node = _nodes.get(key)
    return _nodes.setdefault(key, make()) if node is None else node


def function_at(traversal: Traversal, number: int):
    """The call of a `Function` that a row represents, None for other rows."""
    op = int(traversal.reader.row(number)["op"])
    if op <= layout.ARRAY or name_of_op(op) != "function":
        return None
    return traversal.reader.function(number)


@once_for_each
def _class(name: str, kind):
    """The class of the nodes of that name."""
    return type(name, (kind,), {"__doc__": kind.__doc__, "__module__": __name__})


def node_at(reader: Reader, number: int):
    """The node of a row that is an operation."""
    traversal = Traversal(())
    kind = FunctionNode if name_of_row(reader, number) == "function" else RowNode
    return _one_node(number, lambda: _class(name_of(traversal, number), kind)(traversal, number))


def node_before(traversal: Traversal, number: int, view, before=None) -> tuple:
    """The node of what `view` shows of the buffer of a row, before another row; and its index."""
    op = int(traversal.reader.row(number)["op"])
    if op == layout.LOAD:
        source, cell = traversal.read(number)[0]
        call, base = function_at(traversal, source), traversal.base(source)
        is_result = call is not None and call.index_of(base, cell) is not None
        if base.ndim == 0 or is_result:  # the scalar of a tensor without axes
            return node_before(traversal, source, cell, number)
    base = traversal.base(number)
    time = traversal.reader.time
    done = [w for w in traversal.reader.writes(number) if before is None or time(w) < time(before)]
    whole = base is None or view is None or rt.same_place(view, base)
    if done:
        owner = node_at(traversal.reader, done[-1]), 0
    elif op in (layout.LEAF, layout.CHANGED, layout.CONSTANT, layout.NUMBER):
        reference = store.leaves.get(number)
        leaf = reference() if reference else None
        if leaf is not None:
            owner = _one_node(("leaf", number), lambda: AccumulateGrad(leaf)), 0
        else:
            owner = AccumulateGrad(None) if op in (layout.LEAF, layout.CHANGED) else None, 0
    elif (call := function_at(traversal, number)) is not None:
        node = node_at(traversal.reader, number)
        index = call.index_of(base, view)
        if index is not None:
            return node, index
        owner = node, 0
    else:
        owner = (
            _one_node(
                number, lambda: _class(name_of(traversal, number), RowNode)(traversal, number)
            ),
            0,
        )
    if whole or owner[0] is None:
        return owner
    place = view.__array_interface__["data"][0], view.shape, view.strides
    key = ("view", number, done[-1] if done else -1, *place)
    return _one_node(key, lambda: ViewNode(owner, base, view)), 0


def grad_fn(tensor):
    """The node of the graph that computed the tensor; None for inputs and constants."""
    if not is_recorded(tensor) or leaf_of(tensor) is not None:
        return None
    traversal = Traversal(())
    return node_before(traversal, tensor._id, part_of(tensor))[0]


for _name, _method in {"grad_fn": property(grad_fn)}.items():
    setattr(rt.Tensor, _name, _method)
