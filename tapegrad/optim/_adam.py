"""Adam."""

from __future__ import annotations

import math

import numpy as np

from ._optimizer import Optimizer


class Adam(Optimizer):
    """Steps of the running mean of gradients over the root of that of their squares.

    Kingma and Ba, "Adam: a method for stochastic optimization" (2015), with PyTorch's arguments and
    formulas: `betas` are the weights of the past in the two means, which are divided by 1 − betaᵗ;
    `eps` is added to the root; `weight_decay` · value is added to the gradient; with `amsgrad` the
    largest mean of squares so far is used (Reddi et al. 2018). Raises ValueError for settings that
    make no sense.

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
        """Refuse negative settings, and weights of the past that are not below 1."""
        for name in ("lr", "eps", "weight_decay"):
            self.refuse_unless(group[name] >= 0.0, group, name, "0 or more")
        fits = all(0.0 <= beta < 1.0 for beta in group["betas"])
        self.refuse_unless(fits, group, "betas", "two numbers from 0 to below 1")

    def update(self, value, gradient, state, group):
        """See the class."""
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
