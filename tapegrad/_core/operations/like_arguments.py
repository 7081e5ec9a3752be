"""NumPy's functions that make arrays, with `like=` a tensor: they make tensors."""

from __future__ import annotations

import numpy as np

from ..tape.memory_order import has_order
from ..tensor.copies import copy_tensor, holds_tensor, unlisted
from ..tensor.registry import OF_NUMPY, PUBLIC
from ..tensor.trace import fixed
from ..tensor.values import array_of, is_tensor, shape_of, wrap
from .creation import astype
from .shapes import reshape

_OF_DATA = "array asarray asanyarray ascontiguousarray asfortranarray require".split()
_ORDERS = {"ascontiguousarray": "C", "asfortranarray": "F"}
_MAKING = (
    "zeros ones empty full eye identity arange tri fromfunction fromiter frombuffer fromfile "
    "fromstring loadtxt genfromtxt"
).split()


def _from_data(name: str):
    numpy_function = getattr(np, name)

    def make(data, dtype=None, *args, **kwargs):
        data = unlisted(data) if isinstance(data, (list, tuple)) and holds_tensor(data) else data
        if not is_tensor(data):
            return wrap(np.asarray(numpy_function(data, dtype, *args, **kwargs)))
        empty = numpy_function(np.empty((1,) * len(shape_of(data))), dtype, *args, **kwargs)
        made = data if dtype is None else astype(data, empty.dtype, copy=False)
        if len(shape_of(made)) < empty.ndim:
            made = reshape(made, (1,) * (empty.ndim - len(shape_of(made))) + shape_of(made))
        order = kwargs.get("order") or _ORDERS.get(name, "K")
        is_copied = name == "array" and kwargs.get("copy", True) and made is data
        if is_copied or not has_order(array_of(made), order):
            return copy_tensor(made, order)
        return made

    return make


def _from_shape(name: str):
    numpy_function = getattr(np, name)

    def make(*args, **kwargs):
        kwargs = {key: value for key, value in kwargs.items() if value is not None}
        if name in PUBLIC and kwargs.get("order", "C") == "C":
            return PUBLIC[name](*args, **kwargs)
        args = [fixed(argument, f"{name}()") for argument in args]
        made = numpy_function(*args, **{k: fixed(v, f"{name}()") for k, v in kwargs.items()})
        return made if is_tensor(made) else wrap(np.asarray(made))

    return make


for _name in _OF_DATA:
    OF_NUMPY[getattr(np, _name)] = _from_data(_name)
for _name in _MAKING:
    OF_NUMPY.setdefault(getattr(np, _name), _from_shape(_name))
