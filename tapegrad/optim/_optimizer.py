"""Common parts of all optimizers: groups of parameters, and the state of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.tensor.values import array_of, is_tensor
from ..autograd import enable_grad, no_grad
from ..nn._module import clear_grad


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
