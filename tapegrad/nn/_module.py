"""`Module`, which registers the parameters, buffers and modules assigned to it; containers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.operations import creation
from .._core.operations.creation import tensor
from .._core.tensor.values import array_of, is_tensor
from ..autograd import no_grad

# --- parameter ------------------------------------------------------------------------------------
# Tensors that modules register as their own.

#: Parameters that are alive, by identity. The compiled class of tensors has no subclasses.
_made: dict[int, weakref.ref] = {}


class _Known(type):
    def __instancecheck__(cls, value) -> bool:
        reference = _made.get(id(value))
        return reference is not None and reference() is value


class Parameter(metaclass=_Known):
    """A tensor that a module registers when it is assigned to an attribute.

    Parameters
    ----------
    data : array_like
        Numbers, an array or a tensor, which are copied.
    requires_grad : bool, optional
        Whether operations with it are recorded.

    Notes
    -----
    A parameter is a tensor like those of `tg.tensor`; only `isinstance(t, nn.Parameter)`
    distinguishes it.

    Examples
    --------
    >>> from tapegrad import nn
    >>> weight = nn.Parameter([1.0, 2.0])
    >>> weight, isinstance(weight, nn.Parameter)
    (tensor([1., 2.], requires_grad=True), True)
    """

    def __new__(cls, data, requires_grad: bool = True) -> Any:
        made = tensor(data.detach() if is_tensor(data) else data, requires_grad=requires_grad)
        key = id(made)
        _made[key] = weakref.ref(made, lambda _: _made.pop(key, None))
        return made


creation.MAKERS.append((lambda source: isinstance(source, Parameter), Parameter))


# --- module ---------------------------------------------------------------------------------------
# `Module`, which registers the parameters, buffers and modules assigned to it.


class IncompatibleKeys(NamedTuple):
    """The keys that `load_state_dict(…, strict=False)` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return "IncompatibleKeys(missing_keys={}, unexpected_keys={})".format(*self)


class Module:
    """The base class of layers and networks: assign parameters and modules, and define `forward`.

    Attributes of type `Parameter` or `Module` are registered under their names; `register_buffer`
    registers tensors that are saved but not trained. Names and meanings are PyTorch's.

    Attributes
    ----------
    training : bool
        Whether the module is in training mode, which affects dropout and batch normalization.

    Examples
    --------
    >>> from tapegrad import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(2, 3)
    ...         self.scale = nn.Parameter(1.0)
    ...     def forward(self, x):
    ...         return self.scale * self.hidden(x)
    >>> [name for name, _ in Net().named_parameters()]
    ['scale', 'hidden.weight', 'hidden.bias']
    >>> Net()
    Net(
      (hidden): Linear(in_features=2, out_features=3, bias=True)
    )
    """

    training: bool

    def __init__(self):
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_transient", set())
        object.__setattr__(self, "training", True)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """Compute the result of calling the module; subclasses define it.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the call.

        Returns
        -------
        object
            The result.
        """
        raise NotImplementedError(f"tapegrad.nn: {type(self).__name__} defines no forward()")

    # --- attributes -------------------------------------------------------------------------

    def __setattr__(self, name: str, value) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self.register_module(name, value)
        elif name in self.__dict__.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"tapegrad.nn: {type(value).__name__} assigned to the parameter {name!r}; "
                    "assign an nn.Parameter or None"
                )
            self._parameters[name] = None
        elif name in self.__dict__.get("_modules", ()) and value is None:
            self._modules[name] = None
        elif name in self.__dict__.get("_buffers", ()):
            self.register_buffer(name, value, name not in self._transient)
        else:
            self._forget(name)
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, ()):
                return self.__dict__[kind][name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            object.__delattr__(self, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def _forget(self, name: str) -> bool:
        """Remove the entry of a name; returns whether there was one."""
        kinds = [self.__dict__.get(k, {}) for k in ("_parameters", "_buffers", "_modules")]
        found = [kind.pop(name) for kind in kinds if name in kind]
        self.__dict__.get("_transient", set()).discard(name)
        return bool(found)

    def _register(self, kind: str, name: str, value) -> None:
        if kind not in self.__dict__:
            raise AttributeError(
                f"tapegrad.nn: {name!r} is assigned before Module.__init__(); call "
                f"super().__init__() first in {type(self).__name__}.__init__"
            )
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"tapegrad.nn: the name {name!r} must be a string without a dot")
        registered = self.__dict__[kind]
        if name not in registered:
            if not self._forget(name):
                self.__dict__.pop(name, None)
            if hasattr(type(self), name):
                raise KeyError(
                    f"tapegrad.nn: {type(self).__name__} has an attribute {name!r} of its class; "
                    "take another name"
                )
        registered[name] = value

    def register_parameter(self, name: str, param) -> None:
        """Register a parameter as an attribute.

        Parameters
        ----------
        name : str
            The attribute.
        param : Parameter or None
            The parameter; None for one that is absent.

        Raises
        ------
        TypeError
            If it is not a parameter.
        """
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"tapegrad.nn: the parameter {name!r} is a {type(param).__name__}; make it with "
                "nn.Parameter"
            )
        self._register("_parameters", name, param)

    def register_buffer(self, name: str, tensor, persistent: bool = True) -> None:
        """Register a tensor that is not trained as an attribute.

        Parameters
        ----------
        name : str
            The attribute.
        tensor : Tensor or None
            The tensor; None for one that is absent.
        persistent : bool, optional
            Whether `state_dict` has it.

        Raises
        ------
        TypeError
            If it is not a tensor.
        """
        if tensor is not None and not is_tensor(tensor):
            raise TypeError(
                f"tapegrad.nn: the buffer {name!r} is a {type(tensor).__name__}; make it a tensor "
                "with tg.tensor"
            )
        self._register("_buffers", name, tensor)
        (self._transient.discard if persistent else self._transient.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Register a module as an attribute.

        Parameters
        ----------
        name : str
            The attribute, which need not be an identifier.
        module : Module or None
            The module; None for one that is absent.

        Raises
        ------
        TypeError
            If it is not a module.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"tapegrad.nn: the module {name!r} is a {type(module).__name__}; it must be an "
                "nn.Module"
            )
        self._register("_modules", name, module)

    add_module = register_module

    # --- what it consists of ------------------------------------------------------------------

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over this module and all modules inside it, with their names.

        Parameters
        ----------
        memo : set, optional
            Modules to skip.
        prefix : str, optional
            The name of this module.
        remove_duplicate : bool, optional
            Whether each module is given once.

        Yields
        ------
        tuple of str and Module
            A name like "features.0", and the module.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Iterate over this module and all modules inside it, each once.

        Yields
        ------
        Module
        """
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over the modules directly inside this one, each once, with their names.

        Yields
        ------
        tuple of str and Module
        """
        seen: set = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Iterate over the modules directly inside this one, each once.

        Yields
        ------
        Module
        """
        return (module for _, module in self.named_children())

    def _members(self, kind: str, prefix: str, recurse: bool, once: bool):
        """Tensors of a kind with their full names."""
        seen: set[int] = set()
        owners = self.named_modules(None, prefix, once) if recurse else [(prefix, self)]
        for place, module in owners:
            for name, value in module.__dict__[kind].items():
                if value is None or (once and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{place}.{name}" if place else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over all parameters, with their names.

        Parameters
        ----------
        prefix : str, optional
            The name of this module.
        recurse : bool, optional
            Whether modules inside this one are included.
        remove_duplicate : bool, optional
            Whether shared parameters are given once.

        Yields
        ------
        tuple of str and Parameter
            A name like "features.0.weight", and the parameter.
        """
        return self._members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Iterate over all parameters; shared ones are given once.

        Parameters
        ----------
        recurse : bool, optional
            Whether modules inside this one are included.

        Yields
        ------
        Parameter
        """
        return (value for _, value in self.named_parameters("", recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over all buffers, with their names.

        Parameters
        ----------
        prefix : str, optional
            The name of this module.
        recurse : bool, optional
            Whether modules inside this one are included.
        remove_duplicate : bool, optional
            Whether shared buffers are given once.

        Yields
        ------
        tuple of str and Tensor
            A name like "norm.running_mean", and the buffer.
        """
        return self._members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Iterate over all buffers; shared ones are given once.

        Parameters
        ----------
        recurse : bool, optional
            Whether modules inside this one are included.

        Yields
        ------
        Tensor
        """
        return (value for _, value in self.named_buffers("", recurse))

    # --- state --------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """Parameters and persistent buffers by full name, in PyTorch's order."""
        found = {}
        for place, module in self.named_modules(remove_duplicate=False):
            kept = {k: b for k, b in module._buffers.items() if k not in module._transient}
            for name, value in (*module._parameters.items(), *kept.items()):
                if value is not None:
                    found[f"{place}.{name}" if place else name] = value
        return found

    def state_dict(self, prefix: str = "") -> dict[str, np.ndarray]:
        """Return copies of all parameters and persistent buffers.

        `np.savez(path, **module.state_dict())` writes them to a file, `np.load(path)` reads it.

        Parameters
        ----------
        prefix : str, optional
            Put before all names.

        Returns
        -------
        dict of str to ndarray
        """
        return {prefix + name: array_of(value).copy() for name, value in self._state().items()}

    def load_state_dict(self, state_dict: Mapping, strict: bool = True) -> IncompatibleKeys:
        """Copy arrays into the parameters and buffers of the same names.

        Parameters
        ----------
        state_dict : mapping of str to array_like
            The values.
        strict : bool, optional
            Whether all names must match.

        Returns
        -------
        IncompatibleKeys
            A named tuple of the missing and the unexpected names.

        Raises
        ------
        RuntimeError
            If a shape differs or, with `strict`, a name is missing or unexpected; nothing is
            changed.
        """
        state = self._state()
        arrays = {name: np.asarray(array_of(state_dict[name])) for name in state_dict.keys()}
        missing = [name for name in state if name not in arrays]
        unexpected = [name for name in arrays if name not in state]
        problems = [
            f"{name}: the shape is {arrays[name].shape} in state_dict, {value.shape} in the module"
            for name, value in state.items()
            if name in arrays and arrays[name].shape != value.shape
        ]
        if strict and missing:
            problems.append(f"missing in state_dict: {', '.join(missing)}")
        if strict and unexpected:
            problems.append(f"unexpected in state_dict: {', '.join(unexpected)}")
        if problems:
            listed = "\n    ".join(problems)
            raise RuntimeError(
                f"tapegrad.load_state_dict: the state does not fit {type(self).__name__}; give one "
                f"saved from the same architecture:\n    {listed}"
            )
        with no_grad():
            for name in state.keys() & arrays.keys():
                state[name][...] = arrays[name]
        return IncompatibleKeys(missing, unexpected)

    # --- modes --------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Switch this module and all modules inside it to training mode.

        Parameters
        ----------
        mode : bool, optional
            If false, they are switched to evaluation mode.

        Returns
        -------
        Module
            The module itself.
        """
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self) -> Module:
        """Switch this module and all modules inside it to evaluation: `train(False)`.

        Returns
        -------
        Module
            The module itself.
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Set whether all parameters require grad.

        Parameters
        ----------
        requires_grad : bool, optional
            Whether they do.

        Returns
        -------
        Module
            The module itself.
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None or to zeros.

        Parameters
        ----------
        set_to_none : bool, optional
            Whether they are None.
        """
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none)

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call a function with every module inside this one, and finally with this module.

        Parameters
        ----------
        fn : callable
            A function of a module.

        Returns
        -------
        Module
            The module itself.
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # --- text ---------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text in the parentheses of `repr`.

        Returns
        -------
        str
        """
        return ""

    def __repr__(self) -> str:
        name, extra = type(self).__name__, self.extra_repr()
        if not self._modules:
            return f"{name}({extra})"
        lines = extra.split("\n") if extra else []
        for key, module in self._modules.items():
            lines += f"({key}): {module!r}".split("\n")
        return "\n  ".join([f"{name}(", *lines]) + "\n)"


def clear_grad(parameter, set_to_none: bool) -> None:
    """Drop a gradient, or fill it with zeros."""
    if parameter.grad is not None:
        empty = None if set_to_none else np.zeros(parameter.shape, parameter.dtype)
        parameter.grad = empty


# --- container ------------------------------------------------------------------------------------
# Modules one after the other.


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
