"""`backward` and `grad` under PyTorch's names, and `grad` of tensors."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tape import store
from .._core.tape.tape import Reader
from .._core.tensor import runtime as rt
from .._core.tensor.trace import refuse
from .._core.tensor.values import is_recorded, is_tensor, value_of, wrap
from .._derivatives.recorded_reverse import HOOKED, seed_of
from ._backward_pass import Recorded, Swept, Target
from ._complex_inputs import by_parts, holds_complex
from ._hooks import kept_of, leaf_of, retain_grad
from ._transform_hooks import reaches, recorded, swept

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


def _run(roots, seeds, retain: bool, create: bool, targets: list[Target], accumulate) -> None:
    """One backward pass for one seed per root; the rows with hooks are those of its beginning."""
    with store.Kept():
        if create:
            with rt.recording():
                Recorded(targets, accumulate).run(roots, seeds)
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
    targets = [Target(one, reader) for one in wanted]
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
    targets = [Target(one, reader) for one in wanted]
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
        with store.Kept():
            Swept(targets, lambda leaf: False).run(roots, seeds, retain)
        stack: Any = lambda found: wrap(np.stack([value_of(one) for one in found]))  # noqa: E731
        _stacked(targets, [[t.found for t in targets]], stack)
        return
    rows = []
    for k in range(count):
        for target in targets:
            target.found = None
        _run(roots, [one[k] for one in listed], retain, True, targets, lambda leaf: False)
        rows.append([target.found for target in targets])
    _stacked(targets, rows, PUBLIC["stack"])


def _stacked(targets: list[Target], rows: Sequence, stack) -> None:
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
