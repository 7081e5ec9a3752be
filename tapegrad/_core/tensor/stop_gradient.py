"""Values that derivatives treat as constants."""

from __future__ import annotations

from typing import TypeVar

from .pytree import tree_build, tree_leaves
from .values import is_tensor

T = TypeVar("T")


def stop_gradient(x: T) -> T:
    """Return the values of `x`, which derivatives treat as constants.

    Parameters
    ----------
    x : Tensor, array_like, or nested tuples, lists, dicts and dataclasses of them
        Plain numbers, arrays and other objects stay as they are.

    Returns
    -------
    same as x
        With `t.detach()` in place of each tensor t. It shares the memory of t.

    See Also
    --------
    Tensor.detach : The same for one tensor.

    Notes
    -----
    Derivatives of the result of any order are 0, in reverse and in forward mode. Compiled functions
    recompute the result from their arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> def f(x):  # the weights do not count in the derivative
    ...     weights = tg.stop_gradient(1 / (1 + x**2))
    ...     return np.sum(weights * x**2)
    >>> print(tg.grad(f)(np.array([0.0, 1.0, 3.0])))
    [0.  1.  0.6]
    """
    leaves = [value for _, value in tree_leaves(x)]
    if not any(map(is_tensor, leaves)):
        return x
    return tree_build(x, iter([one.detach() if is_tensor(one) else one for one in leaves]))
