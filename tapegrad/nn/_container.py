"""Modules one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._module import Module


class Sequential(Module):
    """A sequence of modules; each is called with the result of the previous one.

    Parameters
    ----------
    *modules : Module, or one mapping
        The modules, or a mapping from names to modules.

    Notes
    -----
    An index gives a module, a slice another `Sequential` of the same modules.

    Examples
    --------
    >>> from tapegrad import nn
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> len(net), net[-1]
    (3, Linear(in_features=8, out_features=1, bias=True))
    """

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named = modules[0].items()
        else:
            named = ((str(k), module) for k, module in enumerate(modules))
        for name, module in named:
            self.register_module(name, module)

    def forward(self, input):
        """The result of the last module."""
        for module in self:
            input = module(input)
        return input

    def _name(self, index: int) -> str:
        names = list(self._modules)
        if not -len(names) <= index < len(names):
            raise IndexError(
                f"tapegrad.nn.Sequential: index {index} is out of range, there are {len(names)} "
                "modules"
            )
        return names[index]

    def __getitem__(self, index) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self.register_module(self._name(index), module)

    def __delitem__(self, index) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name(index)]
        for name in names:
            del self._modules[name]
        kept = list(self._modules.values())  # numbered anew, as in PyTorch
        self._modules.clear()
        self._modules.update({str(k): module for k, module in enumerate(kept)})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Sequential:
        """Add a module at the end.

        Parameters
        ----------
        module : Module
            The module.

        Returns
        -------
        Sequential
            The container itself.
        """
        self.register_module(str(len(self)), module)
        return self
