"""Adam."""

from __future__ import annotations

import math

import numpy as np

from ._optimizer import Optimizer


class Adam(Optimizer):
    """Adam: steps along the running mean of gradients, scaled by the running mean of their squares.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Tensors that require grad, or groups of them with settings of their own; see `Optimizer`.
    lr : float, optional
        The learning rate.
    betas : tuple of two floats, optional
        The decay rates of the two running means.
    eps : float, optional
        Added to the denominator.
    weight_decay : float, optional
        Its product with the value of a parameter is added to the gradient.
    amsgrad : bool, optional
        Whether the largest mean of squares so far is used.

    Raises
    ------
    ValueError
        If a setting is out of range.

    References
    ----------
    Kingma and Ba, "Adam: a method for stochastic optimization" (2015); for `amsgrad` Reddi, Kale
    and Kumar, "On the convergence of Adam and beyond" (2018). Names and formulas are PyTorch's.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0], requires_grad=True)
    >>> optimizer = tg.optim.Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.9], requires_grad=True)
    """

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False
    ):
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
        }
        super().__init__(params, defaults)

    def check(self, group) -> None:
        """Raise ValueError for settings that are out of range.

        Parameters
        ----------
        group : mapping
            The settings.
        """
        for name in ("lr", "eps", "weight_decay"):
            self.refuse_unless(group[name] >= 0.0, group, name, "0 or more")
        fits = all(0.0 <= beta < 1.0 for beta in group["betas"])
        self.refuse_unless(fits, group, "betas", "two numbers from 0 to below 1")

    def update(self, value, gradient, state, group):
        """Compute the new value of a parameter; see `Optimizer.update`.

        Parameters
        ----------
        value, gradient, state, group
            As in `Optimizer.update`.

        Returns
        -------
        ndarray
        """
        one, two = group["betas"]
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * value
        if not state:
            state.update(step=0, exp_avg=np.zeros_like(value), exp_avg_sq=np.zeros_like(value))
        state["step"] += 1
        mean = state["exp_avg"] = one * state["exp_avg"] + (1.0 - one) * gradient
        square = state["exp_avg_sq"] = two * state["exp_avg_sq"] + (1.0 - two) * gradient * gradient
        if group["amsgrad"]:
            square = np.maximum(state.get("max_exp_avg_sq", square), square)
            state["max_exp_avg_sq"] = square
        root = np.sqrt(square) / math.sqrt(1.0 - two ** state["step"]) + group["eps"]
        return value - group["lr"] / (1.0 - one ** state["step"]) * mean / root
