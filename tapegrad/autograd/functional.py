"""PyTorch's `torch.autograd.functional`: derivatives of functions of several tensors.

Names, signatures and shapes are PyTorch's. Inputs are a tensor or a tuple of tensors (arrays and
numbers too), and so are results: tensors, nested in tuples where inputs or outputs are tuples. With
`create_graph` the results can be differentiated with respect to the inputs that require grad; else
they are detached. With `strict` an error says which output or derivative does not depend on which
input; otherwise it is zero. What PyTorch does not support together is supported here.
"""

from __future__ import annotations

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.registry import sharing
from .._core.tensor.trace import refuse
from .._core.tensor.values import is_recorded, is_tensor, shape_of, value_of, wrap
from .._derivatives.inputs import Inputs
from .._derivatives.recorded_reverse import reached, recorded_adjoints
from .._entering.entering import entering
from .._transforms.gradients import pulled, pushed
from .._transforms.jacobians import along_hessian, columns_of, rows_of

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
_STRATEGIES = ("forward-mode", "reverse-mode")
#: Entries of parameters in the docstrings of all functions.
_ENTRIES = {
    "func": ("callable", "A function of tensors that returns a tensor or a tuple of tensors."),
    "inputs": ("Tensor or tuple of Tensors", "Its arguments."),
    "create_graph": (
        "bool",
        "Whether the results are recorded, so that they can be differentiated.",
    ),
    "strict": (
        "bool",
        "Whether an output that does not depend on an input is refused; else it has zeros.",
    ),
    "vectorize": ("bool", "Has no effect: several rows are always computed at a time."),
}
_described = sharing(_ENTRIES)


class _Call:
    """A function called with its inputs recorded: its results, and their form."""

    def __init__(self, name, func, inputs, create_graph, strict):
        self.name, self.create_graph, self.strict = name, create_graph, strict
        self.many, given = self.tensors("inputs", inputs)
        if not create_graph:
            refuse(f"autograd.functional.{name} detaches its results; use create_graph=True")
            given = tuple(wrap(np.array(value_of(x))) for x in given)
        self.inputs = Inputs(f"autograd.functional.{name}", given, tuple(range(len(given))))
        self.outputs_many, self.outs = self.tensors(
            "outputs of the function", func(*self.inputs.args)
        )

    def error(self, kind, text):
        return kind(f"tapegrad.autograd.functional.{self.name}: {text}")

    def tensors(self, what, given):
        """Whether a tuple is given, and its tensors."""
        many = isinstance(given, tuple)
        for k, value in enumerate(given if many else (given,)):
            if not is_tensor(value) and not isinstance(value, (np.ndarray, np.number, float, int)):
                place = f"the value at index {k}" if many else "it"
                raise self.error(
                    TypeError,
                    f"the {what} must be a tensor or a tuple of tensors; {place} has type "
                    f"{type(value).__name__}",
                )
        return many, tuple(map(unlisted, given if many else (given,)))

    def vector(self, v, like, many, whose):
        """The vector that a matrix is multiplied by: one tensor for each of `like`."""
        if v is None:
            if len(like) != 1 or np.size(value_of(like[0])) != 1:
                raise self.error(
                    RuntimeError,
                    f"v can be None only for a function with a single {whose} of a single "
                    "element; pass v= of its shape",
                )
            return [np.ones(shape_of(like[0]))]
        _, v = self.tensors("entries of v", v)
        if len(v) != len(like):
            raise self.error(
                RuntimeError,
                f"v has {len(v)} entries; it needs one for each {whose}, which are {len(like)}",
            )
        for k, (one, other) in enumerate(zip(v, like, strict=True)):
            if shape_of(one) != shape_of(other):
                entry = f"entry {k} of v" if many else "v"
                raise self.error(
                    RuntimeError,
                    f"{entry} has shape {shape_of(one)}, the {whose} {shape_of(other)}; they must "
                    "be equal",
                )
        return list(v) if self.create_graph else [value_of(one) for one in v]

    def check_dependence(self, results, what, inputs=True, pairs=False):
        """In strict mode: each result depends on some input, or in `pairs` on each of them.

        With `inputs` each input must have a result that depends on it.
        """
        if not self.strict:
            return
        table = np.array([reached(result, self.inputs.tensors) for result in results])
        for k, row in enumerate(table):
            if not row.any() or (pairs and not row.all()):
                input = np.flatnonzero(~row)[0]
                raise self.error(
                    RuntimeError,
                    f"{what} {k} is independent of input {input}, which strict=True does not allow",
                )
        if inputs and not table.any(0).all():
            raise self.error(
                RuntimeError,
                f"every {what} is independent of input {np.flatnonzero(~table.any(0))[0]}, which "
                "strict=True does not allow",
            )

    def scalar_output(self):
        """The only result, which has one element."""
        if self.outputs_many or np.size(value_of(self.outs[0])) != 1:
            shapes = [shape_of(out) for out in self.outs]
            raise self.error(
                RuntimeError,
                f"the function returned shapes {shapes}; it must return a single tensor with a "
                "single element",
            )
        return self.outs[0]

    def scalar_gradient(self, only: bool):
        """The gradient of the only result, recorded; `only` as in `recorded_adjoints`."""
        out = self.scalar_output()
        seeds = [np.ones(shape_of(out))]
        outs = [out] if is_recorded(out) else []
        return recorded_adjoints(outs, seeds[: len(outs)], self.inputs.tensors, only)

    def result(self, value):
        """A result in PyTorch's form: a tensor, detached unless a graph is wanted."""
        if self.create_graph and is_tensor(value):
            return value
        return wrap(np.array(value_of(value)))

    def results(self, values, many):
        """Results in a tuple if the inputs or outputs were one."""
        made = tuple(self.result(value) for value in values)
        return made if many else made[0]

    def value(self):
        return self.results(self.outs, self.outputs_many)


@_described
def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """Compute the outputs of a function, and the product of a vector with its Jacobian.

    Parameters
    ----------
    v : Tensor or tuple of Tensors, optional
        The vector, with the structure and shapes of the outputs; not needed for one element.

    Returns
    -------
    outputs : Tensor or tuple of Tensors
        The result of the function.
    vjp : Tensor or tuple of Tensors
        The product, with the structure and shapes of the inputs.

    Raises
    ------
    TypeError
        If an input or output is not a tensor.
    RuntimeError
        If `v` does not fit, or `strict` refuses an output.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0])
    >>> tg.autograd.functional.vjp(lambda x: x**2, x, tg.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with rt.recording():
        call = _Call("vjp", entering(func), inputs, create_graph, strict)
        call.check_dependence(call.outs, "output")
        v = call.vector(v, call.outs, call.outputs_many, "output")
        found = pulled(call.outs, call.inputs, v, create_graph)
        if create_graph:
            call.check_dependence(found, "the product by input", inputs=False)
        return call.value(), call.results(found, call.many)


@_described
def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """Compute the outputs of a function, and the product of its Jacobian with a vector.

    Parameters
    ----------
    v : Tensor or tuple of Tensors, optional
        The vector, with the structure and shapes of the inputs; not needed for one element.

    Returns
    -------
    outputs : Tensor or tuple of Tensors
        The result of the function.
    jvp : Tensor or tuple of Tensors
        The product, with the structure and shapes of the outputs, by one forward sweep.

    Raises
    ------
    TypeError, RuntimeError
        As `vjp`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0])
    >>> tg.autograd.functional.jvp(lambda x: x**2, x, tg.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with rt.recording():
        call = _Call("jvp", entering(func), inputs, create_graph, strict)
        call.check_dependence(call.outs, "output")
        v = call.vector(v, call.inputs.tensors, call.many, "input")
        seeds = [_direction(one, x) for one, x in zip(v, call.inputs.tensors, strict=True)]
        found = [tangent[0] for tangent in pushed(call.outs, call.inputs, seeds, create_graph)]
        if create_graph:
            call.check_dependence(found, "the product of output", inputs=False)
        return call.value(), call.results(found, call.outputs_many)


def _direction(v, x):
    """A tangent with an axis of one direction first."""
    v = v if is_tensor(v) else np.asarray(v, x.dtype)
    return v.reshape(1, *x.shape)


@_described
def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """Compute the Jacobian of each output with respect to each input.

    Parameters
    ----------
    strategy : {"reverse-mode", "forward-mode"}, optional
        Forward mode pays off for more outputs than inputs.

    Returns
    -------
    Tensor, tuple of Tensors, or tuple of tuples of Tensors
        Jacobians of shape (*output, *input); the outer structure is that of the outputs.

    Raises
    ------
    TypeError, RuntimeError
        As `vjp`.
    ValueError
        If the strategy is not known.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.autograd.functional.jacobian(lambda x, y: x * y, (tg.tensor(2.0), tg.tensor(3.0)))
    (tensor(3.), tensor(2.))
    """
    _check_strategy("jacobian: strategy", strategy)
    with rt.recording():
        return _jacobian("jacobian", entering(func), inputs, create_graph, strict, strategy)


def _check_strategy(name: str, given) -> None:
    if given not in _STRATEGIES:
        raise ValueError(
            f"tapegrad.autograd.functional.{name} is {given!r}; it must be one of "
            f"{' and '.join(map(repr, _STRATEGIES))}"
        )


def _jacobian(name, func, inputs, create_graph, strict, strategy):
    what = "output" if name == "jacobian" else "the gradient by input"
    call = _Call(name, func, inputs, create_graph, strict)
    call.check_dependence(call.outs, what, pairs=True)
    if strategy == "forward-mode":
        blocks = columns_of(call.outs, call.inputs, create_graph)
    else:
        blocks = [rows_of(out, call.inputs, create_graph) for out in call.outs]
    if create_graph:
        for row in blocks:
            call.check_dependence(row, "the Jacobian by input", inputs=False)
    found = tuple(call.results(row, call.many) for row in blocks)
    return found if call.outputs_many else found[0]


@_described
def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """Compute the Hessian of a function that returns one element.

    Parameters
    ----------
    func : callable
        A function of tensors that returns a tensor with one element.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}, optional
        How the gradient is differentiated.

    Returns
    -------
    Tensor or tuple of tuples of Tensors
        Blocks of shape (*input, *input).

    Raises
    ------
    TypeError, ValueError
        As `jacobian`.
    RuntimeError
        If the function returns several outputs or elements, or `strict` refuses one.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.autograd.functional.hessian(lambda x: (x**3).sum(), tg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _check_strategy("hessian: outer_jacobian_strategy", outer_jacobian_strategy)

    def gradient(*tensors):
        call = _Call("hessian", func, tensors if many else tensors[0], True, strict)
        return call.results(call.scalar_gradient(only=True), many)

    func, many = entering(func), isinstance(inputs, tuple)
    with rt.recording():
        return _jacobian("hessian", gradient, inputs, create_graph, strict, outer_jacobian_strategy)


@_described
def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """Compute the output of a function, and the product of a vector with its Hessian.

    Parameters
    ----------
    func : callable
        A function of tensors that returns a tensor with one element.
    v : Tensor or tuple of Tensors, optional
        The vector, with the structure and shapes of the inputs.

    Returns
    -------
    output : Tensor
        The result of the function.
    vhp : Tensor or tuple of Tensors
        The product, with the structure and shapes of the inputs, at the cost of a few gradients.

    Raises
    ------
    TypeError, RuntimeError
        As `vjp` and `hessian`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x, v = tg.tensor([1.0, 2.0]), tg.tensor([1.0, 1.0])
    >>> tg.autograd.functional.vhp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _product("vhp", func, inputs, v, create_graph, strict)


@_described
def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """Compute the output of a function, and the product of its Hessian with a vector.

    The Hessian is symmetric: the product is that of `vhp`, at the same cost.

    Parameters
    ----------
    func : callable
        A function of tensors that returns a tensor with one element.
    v : Tensor or tuple of Tensors, optional
        The vector, with the structure and shapes of the inputs.

    Returns
    -------
    output : Tensor
        The result of the function.
    hvp : Tensor or tuple of Tensors
        The product, with the structure and shapes of the inputs.

    Raises
    ------
    TypeError, RuntimeError
        As `vhp`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x, v = tg.tensor([1.0, 2.0]), tg.tensor([1.0, 1.0])
    >>> tg.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _product("hvp", func, inputs, v, create_graph, strict)


def _product(name, func, inputs, v, create_graph, strict):
    with rt.recording():
        call = _Call(name, entering(func), inputs, create_graph, strict)
        call.check_dependence(call.outs, "output")
        v = call.vector(v, call.inputs.tensors, call.many, "input")
        if create_graph or strict:
            gradient = call.scalar_gradient(only=False)
            call.check_dependence(gradient, "the gradient by input")
            found = pulled(gradient, call.inputs, v, create_graph)
        else:
            found = along_hessian(call.scalar_output(), call.inputs, v)
        if create_graph:
            call.check_dependence(found, "the product by input", inputs=False)
        return call.value(), call.results(found, call.many)
