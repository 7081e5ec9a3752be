"""Stochastic gradient descent."""

from __future__ import annotations

from ._optimizer import Optimizer


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Tensors that require grad, or groups of them with settings of their own; see `Optimizer`.
    lr : float, optional
        The learning rate.
    momentum : float, optional
        The weight of earlier gradients in the running sum that replaces the gradient: sum =
        momentum · sum + (1 − dampening) · gradient, which starts as the first gradient.
    dampening : float, optional
        The dampening of new gradients in that sum.
    weight_decay : float, optional
        Its product with the value of a parameter is added to the gradient.
    nesterov : bool, optional
        Whether the step is along gradient + momentum · sum.

    Raises
    ------
    ValueError
        If a setting is out of range, or `nesterov` is true without momentum or with dampening.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0], requires_grad=True)
    >>> optimizer = tg.optim.SGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8], requires_grad=True)
    """

    def __init__(
        self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False
    ):
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def check(self, group) -> None:
        """Raise ValueError for settings that are out of range.

        Parameters
        ----------
        group : mapping
            The settings.
        """
        for name in ("lr", "momentum", "weight_decay"):
            self.refuse_unless(group[name] >= 0.0, group, name, "0 or more")
        plain = group["momentum"] > 0.0 and group["dampening"] == 0.0
        needed = "False unless momentum is above 0 and dampening is 0"
        self.refuse_unless(plain or not group["nesterov"], group, "nesterov", needed)

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
        momentum = group["momentum"]
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * value
        if momentum:
            if "momentum_buffer" in state:
                total = momentum * state["momentum_buffer"] + (1.0 - group["dampening"]) * gradient
            else:
                total = gradient.copy()
            state["momentum_buffer"] = total
            gradient = gradient + momentum * total if group["nesterov"] else total
        return value - group["lr"] * gradient
