"""Creation of tensors: from data, from ranges, like others, from pickles."""

from __future__ import annotations

import importlib
import inspect
import numbers
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tape import store
from ..tape.sweeps import dense, has_order, inverse, memory_axes
from ..tensor import runtime as rt
from ..tensor.apply import apply
from ..tensor.copies import convert, copy_tensor, holds_tensor, pack, unlisted
from ..tensor.indexing import set_item
from ..tensor.registry import OF_COMPLEX, OF_NUMPY, PUBLIC, alike, function, real_dtype
from ..tensor.trace import fixed, is_steering, named, refuse, steered, steering_tensor
from ..tensor.values import (
    FLOATS,
    Leaf,
    Origin,
    Storage,
    array_of,
    check_recordable,
    combined,
    differentiates,
    imag_part,
    is_complex,
    is_recorded,
    is_tensor,
    meta_of,
    real_part,
    shape_of,
    storage_of,
    tell_each_other,
    told_of,
    value_of,
    wrap,
)
from .shapes import array_tensor, broadcast_to, expand_dims, moveaxis, reshape, transpose

# --- Arrays from one number or two ends, which may be recorded: `full`, `linspace` and others -----
# `creation` makes them by NumPy where nothing is recorded.


def full(shape, fill_value, dtype=None, order="C"):
    """An array filled with a value, which is broadcast to it."""
    filled = copy_tensor(broadcast_to(array_tensor(unlisted(fill_value)), shape), order)
    return filled if dtype is None else filled.astype(dtype, copy=False)


def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None):
    """An array of the shape and dtype of another, filled with a value."""
    a = unlisted(a)
    like = np.empty_like(array_of(a), dtype, order, shape=shape)
    axes = memory_axes(like)
    filled = broadcast_to(array_tensor(unlisted(fill_value)), like.shape)
    if axes is None:
        return copy_tensor(filled).astype(like.dtype, copy=False)
    made = copy_tensor(transpose(filled, axes)).astype(like.dtype, copy=False)
    return transpose(made, inverse(axes))


def arange(start, stop=None, step=1, dtype=None):
    """Numbers from `start` on at distances of `step`, as long as they are before `stop`."""
    start, stop = (0, start) if stop is None else (start, stop)
    count = int(fixed(steered(_count, start, stop, step), "the length of arange()"))
    plain = np.arange(value_of(start), value_of(stop), value_of(step), dtype)
    made = apply("add", start, apply("multiply", step, np.arange(count, dtype=np.float64)))
    return made.astype(plain.dtype, copy=False) if is_tensor(made) else wrap(plain)


@named("creation.count")
def _count(start, stop, step):
    """The number of elements of arange."""
    return len(np.arange(start, stop, step))


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    """`num` numbers at equal distances between two ends, which may be arrays."""
    start, stop, num = unlisted(start), unlisted(stop), operator.index(num)
    plain = np.linspace(value_of(start), value_of(stop), num, endpoint, axis=axis)
    spaces = num - 1 if endpoint else num
    steps = _along(np.arange(num, dtype=float), plain.ndim)
    difference = apply("subtract", stop, start)
    step = apply("divide", difference, spaces) if spaces > 0 else np.nan
    made = apply("add", start, apply("multiply", steps, step if spaces > 0 else difference))
    if endpoint and num > 1:
        made = apply("where", steps == num - 1, stop, made)
    made = _arranged(made, plain, dtype, axis)
    return (made, step) if retstep else made


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """`num` numbers with equal quotients between two ends, which may be arrays."""
    start, stop, num = unlisted(start), unlisted(stop), operator.index(num)
    plain = np.geomspace(value_of(start), value_of(stop), num, endpoint, axis=axis)
    parts = _along(np.linspace(0.0, 1.0, num, endpoint), plain.ndim)
    quotient = apply("power", apply("divide", stop, start), parts)
    made = apply("multiply", start, quotient)
    if endpoint and num > 1:
        made = apply("where", parts == 1.0, stop, made)
    return _arranged(made, plain, dtype, axis)


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """Powers of `base` with `num` exponents at equal distances."""
    start, stop, base = unlisted(start), unlisted(stop), unlisted(base)
    if shape_of(base):
        ndim = len(np.broadcast_shapes(*map(shape_of, (start, stop, base))))
        start, stop, base = (_with_axes(x, ndim) for x in (start, stop, base))
        base = expand_dims(base, axis)
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    made = apply("power", base, exponents)
    return made if dtype is None else made.astype(dtype)


def _along(numbers: np.ndarray, ndim: int) -> np.ndarray:
    """Numbers along the first of `ndim` axes."""
    return numbers.reshape(-1, *(1,) * (ndim - 1))


def _with_axes(x, ndim: int):
    shape = shape_of(x)
    return reshape(x, (1,) * (ndim - len(shape)) + shape)


def _arranged(made, plain: np.ndarray, dtype, axis: int):
    """Numbers along the first axis as NumPy's function gives them: its dtype, along `axis`."""
    made = made if axis == 0 else moveaxis(made, 0, axis)
    wanted = plain.dtype if dtype is None else np.dtype(dtype)
    if wanted.kind in "iu":
        made = apply("floor", made)
    return made if array_of(made).dtype == wanted else made.astype(wanted)


RECORDED = {
    made.__name__: made for made in (full, full_like, arange, linspace, geomspace, logspace)
}


# --- Creation of tensors, and their properties ----------------------------------------------------


def _input(array: Any):
    """An input that requires grad, on an array that is written by no one else."""
    _check_dtype("tensor", array)
    made = wrap(_owner(array))
    _become_input(made)
    return made


def _check_dtype(name: str, array: np.ndarray) -> None:
    if array.dtype not in FLOATS:
        raise TypeError(
            f"tapegrad.{name}: only float64 and float32 can require grad, not {array.dtype}; "
            "pass dtype=float"
        )


def _owner(array: Any) -> np.ndarray:
    """An array on the same memory that its views name as their base."""
    return array if array.base is None else np.asarray(memoryview(array))


def _become_input(tensor) -> None:
    number, chunk = store.new_input(tensor._array)
    rt.attach(tensor, number, chunk)
    tensor._meta = Leaf()
    store.watch(tensor, number)


@function()
def tensor(data, dtype=None, requires_grad=False):
    """Make a tensor with a copy of the data.

    Parameters
    ----------
    data : array_like
        Numbers, nested lists, an array or a tensor.
    dtype : dtype, optional
        The dtype; by default NumPy's for the data (float64 for Python floats).
    requires_grad : bool, optional
        Whether operations with the tensor are recorded, and `backward()` adds to its `grad`.

    Returns
    -------
    Tensor or ComplexTensor

    Raises
    ------
    TypeError
        If the data are not numbers, or their dtype cannot require grad.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    return _new("tensor", data, dtype, requires_grad, copy_data=True)


@function()
def asarray(data, dtype=None, requires_grad=False):
    """Make a tensor that shares memory with an array.

    Parameters
    ----------
    data : array_like
        An array or a tensor. A tensor is returned unchanged; lists and numbers are copied.
    dtype : dtype, optional
        The dtype of the tensor; another one than that of the data makes a copy.
    requires_grad : bool, optional
        Whether operations with the tensor are recorded, and `backward()` adds to its `grad`.

    Returns
    -------
    Tensor or ComplexTensor

    Raises
    ------
    TypeError
        If the data are not numbers, or their dtype cannot require grad.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> a = np.zeros(2)
    >>> tg.asarray(a)[0] = 1.0
    >>> a
    array([1., 0.])
    """
    if is_tensor(data) and dtype in (None, data.dtype) and not requires_grad:
        return data
    return _new("asarray", data, dtype, requires_grad, copy_data=False)


def _new(name, data, dtype, requires_grad, copy_data):
    rt.start()
    data = unlisted(data)
    if is_complex(data) or (dtype is not None and np.dtype(dtype).kind == "c"):
        return _new_complex(name, data, dtype, requires_grad, copy_data)
    if is_recorded(data):
        if requires_grad:
            refuse("it creates an input from a tensor (requires_grad=True)")
            data = data.detach()
        else:
            made = copy_tensor(data, "K")
            return made if dtype is None else astype(made, dtype)
    source = value_of(data)
    array = np.array(source, dtype=dtype, copy=copy_data or None)
    if not copy_data:
        array = array.view()  # not the caller's object, whose shape and dtype are the caller's
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"tapegrad.{name}: the data have dtype {array.dtype}; tensors hold real numbers and "
            "booleans"
        )
    if not requires_grad:
        return wrap(array)
    if copy_data or not array.flags.aligned or dense(array) is not array:
        return _input(np.array(array, array.dtype.newbyteorder("=")))
    made = _input(np.asarray(memoryview(array)))
    if is_tensor(data):
        tell_each_other(made, storage_of(data))
    return made


def _new_complex(name, data, dtype, requires_grad, copy_data):
    """A complex tensor: a tensor of each part."""
    dtype = None if dtype is None else real_dtype(name, dtype)
    parts = real_part(data), imag_part(data)
    if not is_tensor(parts[0]) and dtype is None:
        dtype = np.float32 if np.result_type(data) == np.complex64 else np.float64
    return combined(*[_new(name, part, dtype, requires_grad, copy_data) for part in parts])


def _is_filled(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether a tensor is filled from a recorded one; the first argument of …_like is a shape."""
    given = [*args[name.endswith("_like") :], *kwargs.values()]
    return any([is_recorded(unlisted(argument)) for argument in given])


_OF_SHAPE = "dtype=None, order='C', *, device=None, like=None"
_ALIKE = "dtype=None, order='K', subok=True, shape=None, *, device=None"
_BETWEEN = "start, stop, num=50, endpoint=True"
#: The parameters of NumPy's functions that create arrays; NumPy does not always expose them.
_ARGUMENTS = {
    **dict.fromkeys(("zeros", "ones", "empty"), f"shape, {_OF_SHAPE}"),
    "full": f"shape, fill_value, {_OF_SHAPE}",
    "eye": "N, M=None, k=0, dtype=float, order='C', *, device=None, like=None",
    "identity": "n, dtype=None, *, like=None",
    "arange": "start_or_stop, /, stop=None, step=1, dtype=None, *, device=None, like=None",
    "linspace": f"{_BETWEEN}, retstep=False, dtype=None, axis=0, *, device=None",
    "logspace": f"{_BETWEEN}, base=10.0, dtype=None, axis=0, *",
    "geomspace": f"{_BETWEEN}, dtype=None, axis=0, *",
    **dict.fromkeys(("zeros_like", "ones_like"), f"a, {_ALIKE}"),
    "empty_like": f"prototype, /, {_ALIKE}",
    "full_like": f"a, fill_value, {_ALIKE}",
}


def _creator(name):
    numpy_function = getattr(np, name)

    def create(*args, requires_grad=False, **kwargs):
        rt.start()
        if _is_filled(name, args, kwargs):
            if not requires_grad and name in RECORDED:
                return RECORDED[name](*args, **kwargs)
            if requires_grad:
                refuse("it creates an input from a tensor (requires_grad=True)")
        of_shape = name.endswith("_like")  # the values of the first argument do not matter
        shapes = [value_of(argument) for argument in args[:of_shape]]
        args = [*shapes, *[fixed(argument, f"{name}()") for argument in args[of_shape:]]]
        kwargs = {key: fixed(argument, f"{name}()") for key, argument in kwargs.items()}
        made = numpy_function(*args, **kwargs)
        if isinstance(made, tuple):  # linspace with its step
            return tuple([_made(np.asarray(part), requires_grad) for part in made])
        return _made(made, requires_grad)

    create.__name__ = name
    like = eval(f"lambda {_ARGUMENTS[name]}, requires_grad=False: None")
    vars(create)["__signature__"] = signature = inspect.signature(like)
    *of_numpy, _ = signature.parameters
    create.__doc__ = (
        f"Make a tensor as `numpy.{name}` makes an array.\n\nParameters\n----------\n"
        f"{', '.join(of_numpy)}\n    The arguments of `numpy.{name}`. Values may be recorded.\n"
        "requires_grad : bool, optional\n    Whether operations with the tensor are recorded, and "
        "`backward()` adds to its `grad`.\n\nReturns\n-------\nTensor\n    float64 unless `dtype` "
        "is given or follows from the arguments."
    )
    return create


def _made(array, requires_grad: bool):
    array = np.asarray(array)
    return _input(dense(array)) if requires_grad else wrap(array)


for _name in _ARGUMENTS:
    # NumPy does not dispatch on the first, if there is no array among its arguments.
    _stands_for = () if _name in "zeros ones empty eye identity arange".split() else (_name,)
    function(*_stands_for)(_creator(_name))


def astype(self, dtype, order="K", *, copy=True):
    """Convert to another dtype; a conversion to integers or booleans has no derivative.

    Parameters
    ----------
    dtype : dtype
        The dtype of the result.
    order : {"C", "F", "A", "K"}, optional
        The memory order of the result; "A" and "K" follow the tensor.
    copy : bool, optional
        If false, a tensor that has the dtype is returned itself.

    Returns
    -------
    Tensor or ComplexTensor
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = real_dtype("astype", dtype)
        return combined(astype(self, part, order), np.zeros(self.shape, part))
    value = array_of(self)
    if value.dtype == dtype and (type(self) is rt.Scalar or not copy and has_order(value, order)):
        return self
    if not differentiates(self) or dtype.kind in "iub":
        return steering_tensor(converted, self, dtype=dtype, order=order)
    if value.dtype == dtype:
        return copy_tensor(self, order)
    return convert(self if type(self) is rt.Array else pack(self), dtype, order)


@named("creation.converted")
def converted(value, dtype, order="K"):
    return np.asarray(value).astype(dtype, order)


@function("astype", public="astype")
def _astype_of(x, dtype, /, *, copy=True, device=None):
    """Convert to another dtype.

    A conversion to integers or booleans has no derivative.

    Parameters
    ----------
    dtype : dtype
        The dtype of the result.
    copy : bool, optional
        If false, an operand that has the dtype is returned itself.
    device : None, optional
        Has no effect.
    """
    x = unlisted(x)
    if is_tensor(x):
        return astype(x, dtype, copy=copy)
    return (x if is_complex(x) else np.asarray(x)).astype(dtype, copy=copy)


def _iterate(self):
    shape = np.shape(value_of(self))
    if not shape:
        raise TypeError("tapegrad: a tensor without axes cannot be iterated")
    return (self[k] for k in range(shape[0]))


def _reverse(self):
    return (self[k] for k in reversed(range(len(self))))


def _length(self):
    shape = np.shape(value_of(self))
    if not shape:
        raise TypeError("tapegrad: a tensor without axes has no length")
    return shape[0]


def _requires_grad_(self, requires_grad=True):
    """Make the tensor an input that requires grad, in place, or one that does not.

    Parameters
    ----------
    requires_grad : bool, optional
        Whether operations with the tensor are recorded. An input that no longer requires grad loses
        its `grad`.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    RuntimeError
        If the tensor was computed from inputs, or is an element that was read from a tensor.
    TypeError
        If its dtype cannot require grad.
    """
    if requires_grad == is_recorded(self):
        return self
    if not requires_grad:
        if not _is_input(self):
            raise RuntimeError(
                "tapegrad.requires_grad_: only inputs can stop requiring grad; use detach()"
            )
        retired = Origin(self)
        store.retire_input(self._id)
        rt.attach(self, -1, 0)
        self._meta = Storage(self._array)
        told_of(self).own.append(retired)  # rows have read it
        return self
    if type(self) is rt.Scalar:
        raise RuntimeError(
            "tapegrad.requires_grad_: the tensor is an element of another tensor, or computed from "
            "such elements; these are numbers without grad: make an input with tg.tensor(t, "
            "requires_grad=True)"
        )
    _check_dtype("requires_grad_", self._array)
    check_recordable("requires_grad_", self._array)
    before = meta_of(self)
    rt.hold(self, _owner(self._array))
    _become_input(self)
    if type(before) is Storage:
        tell_each_other(self, before)
    return self


def _conjugate(self):
    """Return the complex conjugate: the tensor itself, since it is real.

    Returns
    -------
    Tensor
    """
    return self


def _requires_grad(self) -> bool:
    return is_recorded(self) and not is_steering(self)


def _namespace(self, api_version=None):
    """`tapegrad.numpy`, whose functions have the names of the Array API standard."""
    return importlib.import_module("tapegrad.numpy")


def _set_real(self, value):
    set_item(self, ..., value)


METHODS = {
    "astype": astype,
    "requires_grad_": _requires_grad_,
    "shape": property(lambda self: np.shape(value_of(self)), doc="The length of each axis."),
    "ndim": property(lambda self: np.ndim(value_of(self)), doc="The number of axes."),
    "size": property(lambda self: int(np.size(value_of(self))), doc="The number of elements."),
    "dtype": property(lambda self: np.asarray(value_of(self)).dtype, doc="The dtype."),
    "nbytes": property(lambda self: array_of(self).nbytes, doc="The bytes of all elements."),
    "itemsize": property(lambda self: array_of(self).itemsize, doc="The bytes of an element."),
    "strides": property(
        lambda self: array_of(self).strides, doc="The steps in bytes along each axis."
    ),
    "flags": property(
        lambda self: array_of(self).flags,
        doc="How the elements lie in memory, and whether they can be written.",
    ),
    "requires_grad": property(
        _requires_grad, _requires_grad_, doc="Whether operations with the tensor are recorded."
    ),
    "real": property(lambda self: self, _set_real, doc="The real part: the tensor itself."),
    "imag": property(
        lambda self: wrap(np.zeros_like(value_of(self))), doc="The imaginary part: zeros."
    ),
    "conj": _conjugate,
    "conjugate": _conjugate,
    "is_leaf": property(
        lambda self: not is_recorded(self) or _is_input(self),
        doc="Whether the tensor is an input, or is not recorded.",
    ),
    "__array_namespace__": _namespace,
}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)


def _make_numbers_and_arrays() -> None:
    """Scalars are numbers, as `np.float64` is: without length. Arrays without axes are not."""
    numbers.Real.register(rt.Scalar)
    rt.Array.__iter__, rt.Array.__reversed__, rt.Array.__len__ = _iterate, _reverse, _length


rt.on_start.append(_make_numbers_and_arrays)


def _is_input(tensor) -> bool:
    return type(tensor) is rt.Array and type(meta_of(tensor)) is Leaf


@function("copy")
def copy(x, order="K"):
    """Return a copy, which is recorded as an operation."""
    return copy_tensor(unlisted(x), order)


def _copied(self, order="C"):
    """Return a copy, which is recorded as an operation.

    Parameters
    ----------
    order : {"C", "F", "A", "K"}, optional
        The memory order of the copy.

    Returns
    -------
    Tensor
    """
    return copy_tensor(self, order)


for _name, _method in {"copy": _copied, "clone": copy}.items():
    setattr(rt.Tensor, _name, _method)
for _name in ("tensor", "asarray"):
    OF_COMPLEX[_name] = alike
OF_COMPLEX["astype"] = alike


def _full_of_complex(ours, shape, fill_value, dtype=None, **kwargs):
    """An array filled with a complex value, part by part."""
    part = None if dtype is None else real_dtype("full", dtype)
    fill_value = unlisted(fill_value)
    return combined(
        *[ours(shape, one(fill_value), part, **kwargs) for one in (real_part, imag_part)]
    )


OF_COMPLEX["full"] = _full_of_complex


# --- NumPy's functions that make arrays, with `like=` a tensor: they make tensors -----------------


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


# --- Tensors copied by `copy` and `pickle` --------------------------------------------------------
# In a function that is differentiated a copy keeps its derivative. A copy of a user's input is
# another input, as in PyTorch.


#: Makers of inputs with an array, after a test of the tensor that is copied; the first that fits.
MAKERS: list[tuple[Callable, Callable]] = []


def _maker_of(source) -> Callable:
    return next((make for test, make in MAKERS if test(source)), tensor)


def _is_own_input(source) -> bool:
    """Whether a tensor is an input that the user has made, not one of a transform."""
    return source.is_leaf and is_recorded(source) and source._id not in rt.noted_inputs()


def _shallow_copy(self):
    """The result of `copy.copy(t)`: as in NumPy, a copy of the elements; recorded."""
    return self if type(self) is rt.Scalar else copy_tensor(self, "K")


def _deeply_copied(self, memo):
    """The result of `copy.deepcopy(t)`: a recorded copy; for an input of the user a new input."""
    if not _is_own_input(self):
        return _shallow_copy(self)
    refuse("it copies an input (copy.deepcopy)")
    return _maker_of(self)(array_of(self), requires_grad=True)


def _reduced(self, protocol):
    """The state that `pickle` saves: the value, and whether it is an input."""
    if is_recorded(self) and not _is_own_input(self):
        raise TypeError(
            "tapegrad.pickle: the tensor is recorded, so its derivative would be lost; pickle "
            "t.detach()"
        )
    if is_recorded(self):
        refuse("an input is pickled")
    return rebuilt, (_maker_of(self), np.array(array_of(self)), is_recorded(self))


def rebuilt(make: Callable, array: np.ndarray, requires_grad: bool):
    """A tensor from a pickle."""
    return make(array, requires_grad=requires_grad)


_PICKLING = {"__copy__": _shallow_copy, "__deepcopy__": _deeply_copied, "__reduce_ex__": _reduced}
for _name, _method in _PICKLING.items():
    setattr(rt.Tensor, _name, _method)
