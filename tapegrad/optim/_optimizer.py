"""What all optimizers share: groups of parameters, and what is remembered of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.tensor.values import array_of, is_tensor
from ..autograd import enable_grad, no_grad
from ..nn._module import clear_grad


class Optimizer:
    """The base of optimizers: `update` says what one step does to one parameter.

    `params` are tensors that require grad, or dicts with "params" and settings of their own;
    `defaults` are the settings of all others. `state` maps a parameter to what is remembered of it,
    `param_groups` is the list of dicts with all settings; they may be changed between steps.
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
        """Add parameters, with settings that differ from the defaults."""
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
        """Refuse settings of a group that make no sense."""

    def refuse_unless(self, fits: bool, group: Mapping[str, Any], name: str, needed: str) -> None:
        """Raise ValueError about a setting that does not fit."""
        if not fits:
            raise ValueError(f"{self._name}: {name} is {group[name]}; it must be {needed}")

    def update(
        self, value: np.ndarray, gradient: np.ndarray, state: dict[str, Any], group: dict
    ) -> np.ndarray:
        """The new value of a parameter; `state` is what was remembered of it, and is changed."""
        raise NotImplementedError

    def step(self, closure=None):
        """Change every parameter that has a gradient; returns what `closure` returned.

        `closure`, if given, is called first: it computes the loss and its gradients anew.
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
        """Drop the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_grad(parameter, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Settings, and copies of what is remembered, with parameters numbered in order."""
        numbers = {id(p): k for k, p in enumerate(self._parameters())}
        groups = [
            {**group, "params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(p)]: _copied(own) for p, own in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over settings and what is remembered, as `state_dict` gave them.

        Raises ValueError if the groups differ in number or in length.
        """
        groups = state_dict["param_groups"]
        theirs = [len(group["params"]) for group in groups]
        ours = [len(group["params"]) for group in self.param_groups]
        if theirs != ours:
            raise ValueError(
                f"{self._name}: state_dict has groups of {theirs} parameters, the optimizer of "
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
