"""The classes of tensors; `operators` and `operations` add their methods, the recorder its fields.

The stub of this module declares all of them for type checkers.
"""

from __future__ import annotations

from typing import Any


class Tensor:
    """An array whose operations are recorded, so that they can be differentiated.

    `tg.tensor` makes tensors. NumPy treats a tensor like an array of the same shape: operators,
    indexing for reading and writing, methods, `np.sin(t)` and `np.sum(t, axis=0)` work. Elements
    read from a float64 tensor are tensors, too, and behave as numbers.

    Attributes
    ----------
    shape, ndim, size, dtype, strides, nbytes, itemsize, flags, T, mT, flat, real, imag
        As in `numpy.ndarray`.
    requires_grad : bool
        Whether the tensor is recorded.
    grad : Tensor or None
        What `backward()` has accumulated for an input.
    grad_fn : Node or None
        The node of the graph that computed the tensor.
    is_leaf : bool
        Whether the tensor is an input, or is not recorded.

    See Also
    --------
    tapegrad.tensor : Make a tensor.
    tapegrad.ComplexTensor : Tensors of complex numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> np.sum(x[1:] * x[:-1]).backward()
    >>> x.grad
    tensor([2., 1.])
    """

    __slots__ = ()

    #: Before ndarray in binary operations.
    __array_priority__ = 1000.0
    #: The same for pandas, whose frames have 4000.
    __pandas_priority__ = 5000

    def __new__(cls, *_, **__):
        raise TypeError("tapegrad.Tensor: tensors are made by tg.tensor(data)")


class ComplexTensor:
    """A tensor of complex numbers: two real tensors of one shape, the real and the imaginary part.

    `tg.tensor` of complex numbers and operations with complex numbers, such as `1j * t`, make
    complex tensors. NumPy's functions, operators, methods and indices treat it as an array of dtype
    complex128, or complex64 if the parts are float32.

    Attributes
    ----------
    real, imag : Tensor
        The parts, which can be written.
    shape, ndim, size, dtype, nbytes, itemsize, T, mT
        As in `numpy.ndarray`.
    requires_grad : bool
        Whether one of the parts is recorded.
    grad : ComplexTensor or None
        What `backward()` has accumulated: ∂L/∂x + i ∂L/∂y.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> z = tg.tensor([3.0 + 4.0j], requires_grad=True)
    >>> np.sum(np.abs(z) ** 2).backward()
    >>> z.grad
    tensor([6.+8.j])
    """

    __slots__ = ("__weakref__", "_im", "_re")
    #: Before ndarray in binary operations.
    __array_priority__ = 1000.0
    __pandas_priority__ = 5000

    _re: Any
    _im: Any

    def __new__(cls, *_, **__):
        raise TypeError("tapegrad.ComplexTensor: tensors are made by tg.tensor(data)")
