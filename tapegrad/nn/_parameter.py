"""Tensors that modules register as their own."""

from __future__ import annotations

import weakref
from typing import Any

from .._core.operations import creation
from .._core.operations.creation import tensor
from .._core.tensor.values import is_tensor

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
