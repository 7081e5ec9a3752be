"""Layers that are not convolutions: linear, activations, dropout, flatten."""

from __future__ import annotations

import math

import numpy as np

from . import functional as F
from . import init
from ._module import Module
from ._parameter import Parameter


def initial_weights(module, shape, bias: bool, dtype) -> None:
    """Give a module `weight` of a shape (outputs, inputs, …) and `bias`, filled as in PyTorch.

    Both are uniform within ±1 / √(inputs of an output).
    """
    module.weight = init.kaiming_uniform_(Parameter(np.empty(shape, dtype)), a=math.sqrt(5.0))
    module.register_parameter("bias", None)
    if bias:
        fan_in, _ = init.fans(module.weight)
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        module.bias = init.uniform_(Parameter(np.empty(shape[0], dtype)), -bound, bound)


class Linear(Module):
    """A linear layer: x @ weight.T + bias along the last axis.

    Parameters
    ----------
    in_features, out_features : int
        The lengths of the last axis of input and output; weight has shape (out_features,
        in_features).
    bias : bool, optional
        Whether the layer has a bias.
    dtype : dtype, optional
        The dtype of the parameters.

    Examples
    --------
    >>> import tapegrad as tg
    >>> layer = tg.nn.Linear(4, 2)
    >>> layer(tg.ones((3, 4))).shape
    (3, 2)
    """

    def __init__(self, in_features, out_features, bias=True, dtype=np.float64):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        initial_weights(self, (out_features, in_features), bias, dtype)

    def forward(self, input):
        """See `nn.functional.linear`."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class ReLU(Module):
    """Rectified linear unit: max(x, 0), element by element. The derivative at 0 is 0.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.ReLU()(tg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input):
        """See `nn.functional.relu`."""
        return F.relu(input)


class Tanh(Module):
    """Hyperbolic tangent, element by element.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Tanh()(tg.tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input):
        """See `nn.functional.tanh`."""
        return F.tanh(input)


class Sigmoid(Module):
    """Logistic function 1 / (1 + exp(−x)), element by element.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Sigmoid()(tg.tensor([0.0]))
    tensor([0.5])
    """

    def forward(self, input):
        """See `nn.functional.sigmoid`."""
        return F.sigmoid(input)


class Dropout(Module):
    """Dropout: in training, elements are set to 0 at random; in evaluation nothing changes.

    Parameters
    ----------
    p : float, optional
        The probability that an element is 0. The others are divided by 1 − p.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Dropout(0.5).eval()(tg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, p=0.5):
        super().__init__()
        F.check_probability("nn.Dropout", p)
        self.p = p

    def forward(self, input):
        """See `nn.functional.dropout`."""
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Join the axes from `start_dim` to `end_dim`.

    Parameters
    ----------
    start_dim, end_dim : int, optional
        The first and the last of the axes.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.Flatten()(tg.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        """The tensor with these axes as one; a view if the elements are in order."""
        shape = np.shape(input)
        start, end = (d + len(shape) if d < 0 else d for d in (self.start_dim, self.end_dim))
        if not 0 <= start <= end < len(shape):
            raise ValueError(
                f"tapegrad.nn.Flatten: start_dim={self.start_dim}, end_dim={self.end_dim} name no "
                f"run of axes of an input of shape {shape}"
            )
        length = math.prod(shape[start : end + 1])
        return np.reshape(input, (*shape[:start], length, *shape[end + 1 :]))

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
