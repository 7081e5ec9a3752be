"""Optimizers: their common parts, stochastic gradient descent, Adam."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.tensor.values import array_of, is_tensor
from ..autograd import enable_grad, no_grad
from ..nn._module import clear_grad

# --- optimizer ------------------------------------------------------------------------------------
# Common parts of all optimizers: groups of parameters, and the state of each.


class Optimizer:
    """The base class of optimizers: a subclass defines `update`, the step for one parameter.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Tensors that require grad, or dicts with "params" and settings of their own.
    defaults : mapping
        The settings of parameters that have none of their own.

    Attributes
    ----------
    state : dict
        The state that is kept for each parameter.
    param_groups : list of dict
        The parameters with all settings, which may be changed between steps.

    Raises
    ------
    TypeError
        If a parameter is not an input that requires grad.
    ValueError
        If there are no parameters, or one is given twice.

    Examples
    --------
    >>> import tapegrad as tg
    >>> class Sign(tg.optim.Optimizer):
    ...     def update(self, value, gradient, state, group):
    ...         return value - group["lr"] * (gradient > 0)
    >>> x = tg.tensor([1.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> Sign([x], {"lr": 0.5}).step()
    >>> x
    tensor([0.5], requires_grad=True)
    """

    def __init__(self, params, defaults: Mapping[str, Any]):
        self.defaults = dict(defaults)
        self.state: dict[Any, dict[str, Any]] = {}
        self.param_groups: list[dict[str, Any]] = []
        if is_tensor(params):
            raise TypeError(f"{self._name}: params is one tensor; pass a list of tensors")
        given = list(params)
        if not given:
            raise ValueError(f"{self._name}: there are no parameters; give at least one")
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    @property
    def _name(self) -> str:
        return f"tapegrad.optim.{type(self).__name__}"

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters with settings of their own.

        Parameters
        ----------
        param_group : mapping
            "params", a tensor or an iterable of them, and settings that replace the defaults.
        """
        group = {**self.defaults, **param_group}
        group["params"] = [group["params"]] if is_tensor(group["params"]) else [*group["params"]]
        known = {id(p) for other in self.param_groups for p in other["params"]}
        for parameter in group["params"]:
            if not is_tensor(parameter) or not parameter.is_leaf:
                raise TypeError(
                    f"{self._name}: a parameter is a {type(parameter).__name__} that is not an "
                    "input; optimize tensors made with requires_grad=True"
                )
            if id(parameter) in known:
                raise ValueError(f"{self._name}: a parameter is given twice; give each once")
            known.add(id(parameter))
        self.check(group)
        self.param_groups.append(group)

    def check(self, group: Mapping[str, Any]) -> None:
        """Check the settings of a group; a subclass raises ValueError for those out of range.

        Parameters
        ----------
        group : mapping
            The settings.
        """

    def refuse_unless(self, fits: bool, group: Mapping[str, Any], name: str, needed: str) -> None:
        """Raise ValueError about a setting unless it fits.

        Parameters
        ----------
        fits : bool
            Whether it fits.
        group : mapping
            The settings.
        name : str
            The setting.
        needed : str
            The condition that it must satisfy, for the message.
        """
        if not fits:
            raise ValueError(f"{self._name}: {name} is {group[name]}; it must be {needed}")

    def update(
        self, value: np.ndarray, gradient: np.ndarray, state: dict[str, Any], group: dict
    ) -> np.ndarray:
        """Compute the new value of a parameter; a subclass defines it.

        Parameters
        ----------
        value, gradient : ndarray
            The value of the parameter, and its gradient.
        state : dict
            The state of the parameter, which may be modified.
        group : dict
            The settings.

        Returns
        -------
        ndarray
            The new value.
        """
        raise NotImplementedError

    def step(self, closure=None):
        """Change every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            A function that computes the loss and its gradients. It is called first.

        Returns
        -------
        object
            The result of `closure`; None without it.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad(), np.errstate(all="ignore"):
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        state = self.state.setdefault(parameter, {})
                        value, gradient = array_of(parameter), array_of(parameter.grad)
                        parameter[...] = self.update(value, gradient, state, group)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None or to zeros.

        Parameters
        ----------
        set_to_none : bool, optional
            Whether they are None.
        """
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_grad(parameter, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the settings, and copies of the state.

        Returns
        -------
        dict
            "param_groups", with the numbers of parameters, and "state", by number.
        """
        numbers = {id(p): k for k, p in enumerate(self._parameters())}
        groups = [
            {**group, "params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(p)]: _copied(own) for p, own in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore settings and state from a result of `state_dict`.

        Parameters
        ----------
        state_dict : mapping
            A result of `state_dict`.

        Raises
        ------
        ValueError
            If the groups differ in number or in length.
        """
        groups = state_dict["param_groups"]
        theirs = [len(group["params"]) for group in groups]
        ours = [len(group["params"]) for group in self.param_groups]
        if theirs != ours:
            raise ValueError(
                f"{self._name}: state_dict has groups of {theirs} parameters, but the optimizer of "
                f"{ours}; they must be equal"
            )
        for group, other in zip(self.param_groups, groups, strict=True):
            group.update({name: other[name] for name in other if name != "params"})
        parameters = self._parameters()
        numbers = [number for group in groups for number in group["params"]]
        owners = dict(zip(numbers, parameters, strict=True))
        self.state = {owners[k]: _copied(own) for k, own in state_dict["state"].items()}

    def _parameters(self) -> list:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def __repr__(self) -> str:
        lines = []
        for k, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {k}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([f"{type(self).__name__} (", *lines, ")"])


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}


# --- sgd ------------------------------------------------------------------------------------------
# Stochastic gradient descent.


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


# --- adam -----------------------------------------------------------------------------------------
# Adam.


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
