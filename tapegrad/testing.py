"""`check_grads`, derivatives of any order against differences along random directions."""

from __future__ import annotations

import itertools

import numpy as np

from ._core.codegen.progress import Progress
from ._core.tensor.pytree import tree_build, tree_leaves
from ._core.tensor.values import array_of, shape_of
from ._transforms.jacobians import jvp, vjp

#: Step and tolerance of central differences, by the coarsest dtype of the arguments.
_STEPS = {"float64": (1e-6, 1e-6), "float32": (1e-2, 2e-2)}
_MODES = ("fwd", "rev")


def check_grads(f, args, order=2, modes=_MODES, atol=None, rtol=None, eps=None, *, enter=None):
    """Check derivatives of `f` against finite differences along random directions.

    Parameters
    ----------
    f : callable
        A function of floats, arrays, and nested tuples, lists and dicts of them, with such a
        result.
    args : tuple
        The arguments at which derivatives are checked.
    order : int, optional
        The highest order of derivatives that is checked.
    modes : sequence of {"fwd", "rev"}, optional
        Which of forward mode and reverse mode are checked. Orders above the first are checked for
        every sequence of modes.
    atol, rtol : float, optional
        Tolerances; by default 1e-6 for float64 and 2e-2 for float32.
    eps : float, optional
        The step of the differences; by default 1e-6 for float64 and 1e-2 for float32.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        If a derivative differs; the message names the mode and the order.
    ValueError
        If `modes` or `order` is not valid.

    Notes
    -----
    Forward mode gives J·v, compared with (f(x + eps·v) − f(x − eps·v)) / (2·eps). Reverse mode
    gives w·J, whose product with v must be w·(J·v). Each order costs a few evaluations, independent
    of the sizes.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.check_grads(lambda x: np.sum(np.tanh(x) ** 2), (np.array([0.3, 1.2]),), order=3)
    """
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    unknown = [mode for mode in modes if mode not in _MODES]
    if unknown or not modes or order < 1:
        raise ValueError(
            f"tapegrad.check_grads: modes is {modes!r} and order {order}; modes are some of "
            f"{_MODES}, the order is 1 or more"
        )
    dtypes = {str(np.asarray(leaf).dtype) for leaf in _leaves(args)}
    step, tolerance = _STEPS["float32" if "float32" in dtypes else "float64"]
    eps = step if eps is None else eps
    atol, rtol = (tolerance if given is None else given for given in (atol, rtol))
    rng = np.random.default_rng(0)
    paths = [one for depth in range(order) for one in itertools.product(modes, repeat=depth)]
    with Progress("checking derivatives", len(paths) * len(modes)) as progress:
        for path in paths:
            g, point = _derived(f, args, path, enter)
            for mode in modes:
                _check_once(g, point, mode, path, (rng, eps, atol, rtol, enter))
                progress.advance()


def _derived(f, args, path, enter):
    """The function that `path` makes of `f`, and a point of its arguments.

    "fwd" makes (x, v) → J(x)·v of it, "rev" (x, w) → w·J(x).
    """
    for mode in path:
        inner, rng = f, np.random.default_rng(1)
        if mode == "fwd":
            f = lambda x, v, inner=inner: jvp(inner, x, v, enter=enter)[1]
            args = (args, _random(args, rng))
        else:
            f = lambda x, w, inner=inner: vjp(inner, *x, enter=enter)[1](w)
            args = (args, _random(inner(*args), rng))
    return f, args


def _check_once(f, args, mode, path, settings):
    rng, eps, atol, rtol, enter = settings
    v = _random(args, rng)
    value = f(*args)
    w = _random(value, rng)
    above, below = (f(*_moved(args, v, sign * eps)) for sign in (1, -1))
    pairs = zip(_leaves(above), _leaves(below), strict=True)
    wanted = _dot(_leaves(w), [(a - b) / (2 * eps) for a, b in pairs])
    if mode == "fwd":
        found = _dot(_leaves(w), _leaves(jvp(f, args, v, enter=enter)[1]))
    else:
        found = _dot(_leaves(vjp(f, *args, enter=enter)[1](w)), _leaves(v))
    if not np.allclose(found, wanted, rtol, atol):
        of = " of ".join((*reversed(path), "the function"))
        raise AssertionError(
            f"tapegrad.check_grads: the {mode} derivative of {of} is {found} along random "
            f"directions, but central differences give {wanted} (order {len(path) + 1}, eps {eps})"
        )


def _leaves(tree) -> list[np.ndarray]:
    return [array_of(leaf) for _, leaf in tree_leaves(tree)]


def _random(tree, rng):
    """Random numbers in the structure, shapes and dtypes of a tree."""
    made = [
        np.asarray(rng.normal(size=shape_of(leaf)), np.result_type(array_of(leaf), np.float32))
        for _, leaf in tree_leaves(tree)
    ]
    return tree_build(tree, iter(made))


def _moved(tree, direction, step):
    moved = zip(_leaves(tree), _leaves(direction), strict=True)
    return tree_build(tree, iter([_added(x, step * v, v.dtype) for x, v in moved]))


def _added(x, change, dtype) -> np.ndarray:
    """x + change, in the memory order of x: the result of a function may depend on that."""
    made = np.array(x, dtype)
    made += change
    return made


def _dot(one, other) -> float:
    return float(sum(np.sum(a * b) for a, b in zip(one, other, strict=True)))
