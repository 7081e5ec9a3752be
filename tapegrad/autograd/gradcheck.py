"""PyTorch's `gradcheck` and `gradgradcheck`: derivatives against finite differences.

The numerical Jacobian is (f(x + eps) − f(x − eps)) / (2·eps), element by element and in the inputs'
own dtype, so float32 needs a larger `eps`. Jacobians in messages have a row for each element of the
input and a column for each of the output, as PyTorch prints them.
"""

from __future__ import annotations

import warnings

import numpy as np

from .._core.codegen.progress import Progress
from .._core.operations.creation import tensor
from .._core.tensor import runtime as rt
from .._core.tensor.values import array_of, is_recorded, is_tensor, tensor_of
from .._derivatives.inputs import Inputs
from .._entering.entering import entering
from .._transforms.gradients import pulled, pushed
from .._transforms.jacobians import columns_of, rows_of, vjp

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative does not agree with finite differences, or breaks another rule.

    Examples
    --------
    >>> import tapegrad as tg
    >>> issubclass(tg.autograd.GradcheckError, RuntimeError)
    True
    """


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
):
    """Check first derivatives of a function of tensors against finite differences.

    Parameters
    ----------
    func : callable
        A function of tensors that returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensors
        Its arguments. Those with `requires_grad` are checked.
    eps : float, optional
        The step of the differences.
    atol, rtol : float, optional
        Each entry must satisfy |analytical − numerical| ≤ atol + rtol·|numerical|.
    raise_exception : bool, optional
        Whether a failure raises GradcheckError, or returns False.
    nondet_tol : float, optional
        How much the results of two reverse sweeps may differ.
    check_undefined_grad : bool, optional
        Whether outputs without a gradient must count as outputs with gradient zero.
    check_grad_dtypes : bool, optional
        Whether gradients must have the dtype of their inputs.
    check_batched_grad, check_batched_forward_grad : bool, optional
        Whether several seeds in one sweep are compared with one at a time.
    check_forward_ad, check_backward_ad : bool, optional
        Whether forward mode and reverse mode are checked.
    fast_mode : bool, optional
        Whether one random projection of each Jacobian is compared, in place of all entries.

    Returns
    -------
    bool
        True; False for a failure without `raise_exception`.

    Raises
    ------
    GradcheckError
        If a derivative differs; the message shows both Jacobians.
    ValueError
        If no input requires grad.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([0.5, 2.0], requires_grad=True)
    >>> tg.autograd.gradcheck(lambda x: x**3, (x,))
    True
    """
    _check_ways(check_forward_ad, check_batched_forward_grad, check_backward_ad, check_batched_grad)
    check = _Check(func, inputs, eps, atol, rtol)
    compare = check.projections if fast_mode else check.jacobians
    rules = [
        (check_forward_ad, lambda: compare(forward=True)),
        (check_batched_forward_grad, check.batched_forward),
        (check_backward_ad, lambda: compare(forward=False)),
        (check_backward_ad, lambda: check.reentrant(nondet_tol)),
        (check_backward_ad, lambda: check.zeros(check_grad_dtypes)),
        (check_backward_ad and check_undefined_grad, check.undefined),
        (check_batched_grad, check.batched),
    ]
    try:
        for wanted, rule in rules:
            if wanted:
                rule()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_ways(forward, batched_forward, backward, batched_backward) -> None:
    if not (forward or backward):
        raise ValueError(
            "tapegrad.autograd.gradcheck: check_forward_ad and check_backward_ad are both false; "
            "one of them must be true"
        )
    if (batched_backward and not backward) or (batched_forward and not forward):
        raise ValueError(
            "tapegrad.autograd.gradcheck: check_batched_grad needs check_backward_ad, and "
            "check_batched_forward_grad needs check_forward_ad"
        )


def _as_tuple(given) -> tuple:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


class _Check:
    """A function at a point, with its derivatives computed by several methods."""

    def __init__(self, func, inputs, eps, atol, rtol):
        self.func, self.given = entering(func), _as_tuple(inputs)
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.moving = [k for k, x in enumerate(self.given) if is_tensor(x) and x.requires_grad]
        if not self.moving:
            raise ValueError(
                "tapegrad.autograd.gradcheck: none of the inputs requires grad; make at least one "
                "with requires_grad=True"
            )
        for k in self.moving:
            if self.given[k].dtype != np.float64:
                warnings.warn(
                    f"tapegrad.autograd.gradcheck: input {k} has dtype {self.given[k].dtype}; the "
                    "check will likely fail unless it is float64, or eps is larger",
                    stacklevel=3,
                )
        self.points = [np.array(array_of(self.given[k])) for k in self.moving]
        self.rng = np.random.default_rng(0)
        with rt.recording():
            self.inputs = Inputs("autograd.gradcheck", tuple(self.points), range(len(self.points)))
            self.outs = [
                tensor_of(out) for out in _as_tuple(self.func(*self.placed(self.inputs.args)))
            ]

    def placed(self, moving) -> list:
        """All arguments, with those that are checked replaced."""
        arguments = list(self.given)
        for k, x in zip(self.moving, moving, strict=True):
            arguments[k] = x
        return arguments

    def values(self, points) -> list[np.ndarray]:
        """The outputs at other points."""
        with rt.recording():
            made = self.placed([tensor(point, requires_grad=True) for point in points])
            return [np.array(array_of(out)) for out in _as_tuple(self.func(*made))]

    def difference(self, j: int, step: np.ndarray) -> list[np.ndarray]:
        """The central difference of each output when input j moves by a step of length eps."""
        below, above = list(self.points), list(self.points)
        below[j], above[j] = self.points[j] - step, self.points[j] + step
        pairs = zip(self.values(below), self.values(above), strict=True)
        return [((b - a) / (2 * self.eps)).reshape(-1) for a, b in pairs]

    def numerical(self, j: int) -> list[np.ndarray]:
        """The Jacobian of each output by input j, by differences."""
        point = self.points[j]
        rows = []
        with Progress(f"differences by input {self.moving[j]}", point.size) as progress:
            for index in np.ndindex(point.shape):
                step = np.zeros_like(point)
                step[index] = self.eps
                rows.append(self.difference(j, step))
                progress.advance()
        if not rows:
            return [np.zeros((0, array_of(out).size)) for out in self.outs]
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def analytical(self, forward: bool) -> list[list[np.ndarray]]:
        """The Jacobian of each output by each input, as `numerical` gives it."""
        if forward:
            blocks = columns_of(self.outs, self.inputs, False)
        else:
            blocks = [rows_of(out, self.inputs, False) for out in self.outs]
        return [
            [
                array_of(block).reshape(array_of(out).size, point.size).T
                for block, point in zip(row, self.points, strict=True)
            ]
            for out, row in zip(self.outs, blocks, strict=True)
        ]

    def jacobians(self, forward: bool) -> None:
        """Compare all elements of all Jacobians."""
        found = self.analytical(forward)
        for j in range(len(self.points)):
            for i, wanted in enumerate(self.numerical(j)):
                if not is_recorded(self.outs[i]) and np.any(wanted != 0):
                    raise GradcheckError(
                        f"tapegrad.autograd.gradcheck: output {i} is not recorded, but its "
                        f"numerical Jacobian with respect to input {self.moving[j]} is not zero:\n"
                        f"{wanted}"
                    )
                if not np.allclose(found[i][j], wanted, self.rtol, self.atol):
                    raise GradcheckError(self.mismatch(i, j, wanted, found[i][j], forward))

    def mismatch(self, i, j, numerical, analytical, forward, what="Jacobian") -> str:
        mode = "computed with forward mode " if forward else ""
        return (
            f"tapegrad.autograd.gradcheck: {what} {mode}mismatch for output {i} with respect to "
            f"input {self.moving[j]},\nnumerical:{numerical}\nanalytical:{analytical}\n"
        )

    def projections(self, forward: bool) -> None:
        """Compare v·J·u for random v and u, of length 1 and positive; show J on a mismatch."""
        vs = [self.unit(array_of(out)) for out in self.outs]
        us = [self.unit(point) for point in self.points]
        for j, u in enumerate(us):
            ahead = self.along(j, u) if forward else []
            for i, wanted in enumerate(self.difference(j, self.eps * u)):
                v = vs[i].reshape(-1)
                if forward:
                    found = v @ ahead[i].reshape(-1)
                else:
                    found = np.sum(self.adjoints(i, vs[i])[j] * u)
                atol = self.atol * float(u.sum()) * float(v.sum())
                if not np.allclose(found, v @ wanted, self.rtol, atol):
                    self.jacobians(forward)
                    raise GradcheckError(
                        self.mismatch(i, j, v @ wanted, found, forward, "random projection")
                    )

    def unit(self, like: np.ndarray) -> np.ndarray:
        made = self.rng.uniform(size=like.shape)
        return np.asarray(made / max(np.sqrt(np.sum(made**2)), 1e-300), like.dtype)

    def adjoints(self, i: int, seed) -> list[np.ndarray]:
        """Adjoints of the inputs for one of output i, the others without any."""
        seeds = [seed if k == i else None for k in range(len(self.outs))]
        return [array_of(a) for a in pulled(self.outs, self.inputs, seeds, False)]

    def along(self, j: int, direction) -> list[np.ndarray]:
        """Tangents of the outputs for one of input j."""
        seeds = [np.zeros_like(point) for point in self.points]
        seeds[j] = direction
        made = [np.asarray(seed)[None] for seed in seeds]
        return [array_of(t)[0] for t in pushed(self.outs, self.inputs, made, False)]

    # --- other rules --------------------------------------------------------------------------

    def random_seeds(self) -> list[np.ndarray]:
        made = [self.rng.normal(size=array_of(out).shape) for out in self.outs]
        return [np.asarray(s, array_of(o).dtype) for s, o in zip(made, self.outs, strict=True)]

    def reentrant(self, tolerance) -> None:
        seeds = self.random_seeds()
        first, second = (pulled(self.outs, self.inputs, seeds, False) for _ in range(2))
        for j, (a, b) in enumerate(zip(first, second, strict=True)):
            if np.any(np.abs(array_of(a) - array_of(b)) > tolerance):
                raise GradcheckError(
                    "tapegrad.autograd.gradcheck: backward is not reentrant: two sweeps with the "
                    f"same gradients differ for input {self.moving[j]} by more than nondet_tol, "
                    f"{tolerance}:\n{a}\n{b}"
                )

    def zeros(self, dtypes: bool) -> None:
        """Gradients of zero at the outputs give zero, in the inputs' shapes and dtypes."""
        seeds = [np.zeros_like(array_of(out)) for out in self.outs]
        for j, adjoint in enumerate(self.arrays(seeds)):
            point = self.points[j]
            if np.any(adjoint != 0):
                raise GradcheckError(
                    "tapegrad.autograd.gradcheck: backward does not multiply by the gradient of "
                    f"the output: for a gradient of zeros it gives {adjoint} for input "
                    f"{self.moving[j]}"
                )
            if dtypes and adjoint.dtype != point.dtype:
                raise GradcheckError(
                    f"tapegrad.autograd.gradcheck: the gradient for input {self.moving[j]} has "
                    f"dtype {adjoint.dtype}, the input {point.dtype}"
                )

    def arrays(self, seeds) -> list[np.ndarray]:
        return [array_of(a) for a in pulled(self.outs, self.inputs, seeds, False)]

    def undefined(self) -> None:
        for i, out in enumerate(self.outs):
            seeds = self.random_seeds()
            without = [None if k == i else seed for k, seed in enumerate(seeds)]
            zero = [np.zeros_like(array_of(out)) if k == i else s for k, s in enumerate(seeds)]
            for a, b in zip(self.arrays(without), self.arrays(zero), strict=True):
                if not np.allclose(a, b, equal_nan=True):
                    raise GradcheckError(
                        f"tapegrad.autograd.gradcheck: no gradient at output {i} gives {a}, one of "
                        f"zeros {b}; they must be equal"
                    )

    def batched(self) -> None:
        for i, out in enumerate(self.outs):
            together = self.analytical(forward=False)[i]
            size = array_of(out).size
            units = np.eye(size, dtype=out.dtype).reshape(size, *out.shape)
            for k, unit in enumerate(units):
                for j, adjoint in enumerate(self.adjoints(i, unit)):
                    self.equal(adjoint.reshape(-1), together[j][:, k], "backward", i, j)

    def batched_forward(self) -> None:
        together = self.analytical(forward=True)
        for j, point in enumerate(self.points):
            for k, unit in enumerate(np.eye(point.size, dtype=point.dtype)):
                for i, tangent in enumerate(self.along(j, unit.reshape(point.shape))):
                    self.equal(tangent.reshape(-1), together[i][j][k], "forward mode", i, j)

    def equal(self, one, together, mode, i, j) -> None:
        if not np.allclose(one, together, equal_nan=True):
            raise GradcheckError(
                f"tapegrad.autograd.gradcheck: {mode} for several seeds at once differs from one "
                f"at a time, output {i}, input {self.moving[j]}:\n{together}\n{one}"
            )


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
):
    """Check second derivatives of a function of tensors against finite differences of the first.

    Parameters
    ----------
    func : callable
        A function of tensors that returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensors
        Its arguments. Those with `requires_grad` are checked.
    grad_outputs : Tensor or tuple of Tensors, optional
        The adjoints of the outputs; random by default.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes
        As in `gradcheck`.
    check_batched_grad, fast_mode
        As in `gradcheck`.
    check_fwd_over_rev, check_rev_over_rev : bool, optional
        Whether the first derivatives are differentiated by forward mode and by reverse mode.

    Returns
    -------
    bool
        True; False for a failure without `raise_exception`.

    Raises
    ------
    GradcheckError, ValueError
        As `gradcheck`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([0.5, 2.0], requires_grad=True)
    >>> tg.autograd.gradgradcheck(lambda x: x**3, (x,))
    True
    """
    first, arguments = _first_derivatives(func, _as_tuple(inputs), grad_outputs)
    return gradcheck(
        first,
        arguments,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad and check_rev_over_rev,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _first_derivatives(func, inputs, grad_outputs):
    """The gradients of a function as a function of its inputs and of the outputs' gradients."""
    moving = [k for k, x in enumerate(inputs) if is_tensor(x) and x.requires_grad]
    func = entering(func)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        with rt.recording():
            outs = [array_of(out) for out in _as_tuple(func(*inputs))]
        seeds = [
            np.asarray(rng.uniform(-1, 1, o.shape), o.dtype) for o in outs if o.dtype.kind == "f"
        ]
        grad_outputs = [tensor(seed, requires_grad=True) for seed in seeds]

    def first(*arguments):
        given, seeds = list(arguments[: len(inputs)]), arguments[len(inputs) :]

        def of_moving(*tensors):
            for k, x in zip(moving, tensors, strict=True):
                given[k] = x
            return tuple(o for o in _as_tuple(func(*given)) if array_of(o).dtype.kind == "f")

        _, back = vjp(of_moving, *[given[k] for k in moving])
        return back(seeds)

    return first, (*inputs, *_as_tuple(grad_outputs))
