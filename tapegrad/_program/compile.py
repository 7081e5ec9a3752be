"""`tg.compile`: a function recorded once and replayed without Python."""

from __future__ import annotations

import functools

from .._transforms.gradients import grad, transform_of, value_and_grad
from .compiled import Compiled
from .methods import CompiledByName, is_followed, with_instance

_CHOICES = {
    "on_branch": ("record", "error"),
    "verify": ("once", "always", "never"),
    "memory": ("all", "sqrt"),
}


def compile(
    f=None,
    *,
    argnums=0,
    argnames=None,
    on_branch="record",
    verify="once",
    native=None,
    memory="all",
    enter=None,
):
    """Compile a function: record it at the first call, and replay the recording afterwards.

    A recording serves calls whose arguments have the same structure, shapes and dtypes. Values that
    Python reads (an `if`, `t.item()`, an index) are guards, checked at every call. If a guard
    fails, the loops and branches of `f` are read from its bytecode into a graph that serves all
    branches; if this is not possible, `f` is recorded again and both recordings are kept.

    Parameters
    ----------
    f : callable, optional
        The function. Floats and arrays among its arguments are inputs; all others (ints, strings,
        functions) select the recording. `f` may be the result of `tg.value_and_grad` or `tg.grad`.
        Without `f`, `compile` returns a decorator.
    argnums : int or tuple of ints, optional
        Positions of the arguments to differentiate. The other inputs are data and may change from
        call to call.
    argnames : str or tuple of str, optional
        Names of the arguments to differentiate, instead of `argnums`.
    on_branch : {"record", "error"}, optional
        With "error", a call that takes another branch raises RuntimeError.
    verify : {"once", "always", "never"}, optional
        Which calls are compared with an eager call of `f`, to detect functions that depend on more
        than their arguments: the second call, every call, or none.
    native : bool or None, optional
        Whether machine code is compiled for the function, in a background thread: after many calls
        (None), from the first call on (True), or never (False).
    memory : {"all", "sqrt"}, optional
        What native loops keep for the reverse pass: the values of every step, or those of about the
        square root of the number of steps, from which the others are recomputed.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    Compiled
        A function that is called like `f` and has the methods of `Compiled`: `value_and_grad`,
        `grad`, `jacobian`, `hessian`, `hvp`, `jvp`, `vjp`, `map`, `sum`, `numba`, `save`,
        `explain`, `profile`, `draw`.

    Raises
    ------
    ValueError
        If an option is not one of its choices.
    RuntimeError
        When called, if `verify` finds a difference, or on another branch with `on_branch="error"`.

    Warns
    -----
    RuntimeWarning
        Once, if `f` cannot be recorded, with the reason; it then runs eagerly.

    Notes
    -----
    Results of native code may differ from those of the replayed program by rounding: arrays are
    summed in another order, and exp, log and similar functions are evaluated by vectors. Unless
    `verify` is "never", native code is compared with the program before it is used; if they differ
    by more than rounding, it is not used and a RuntimeWarning is issued.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> f = tg.compile(lambda x: np.sum(x**2) if x[0] > 0 else x[1])
    >>> value, gradient = f.value_and_grad(np.array([1.0, 2.0]))
    >>> print(value, gradient)
    5.0 [2. 4.]
    """
    settings = dict(on_branch=on_branch, verify=verify, memory=memory)
    for name, given in settings.items():
        if given not in _CHOICES[name]:
            choices = ", ".join(map(repr, _CHOICES[name]))
            raise ValueError(f"tapegrad.compile: {name} is {given!r}; it must be one of {choices}")
    settings |= dict(native=native, enter=enter)
    if f is None:
        return functools.partial(compile, argnums=argnums, argnames=argnames, **settings)
    settings["enter"] = _enter_of(f) if enter is None else enter
    kind, f, argnums = _transform_of(f) or _method_of(f) or ("value", f, argnums)
    f = with_instance(f)
    if argnames is not None:
        return CompiledByName.of(Compiled, f, kind, argnums, argnames, **settings)
    if is_followed(f):
        return Compiled(f.__func__, kind, argnums, **settings)._of_instance(
            f.__self__, is_kept=True
        )
    return Compiled(f, kind, argnums, **settings)


def _transform_of(f) -> tuple | None:
    """The (kind, function, argnums) of what `tg.grad` or `tg.value_and_grad` gave."""
    transform, of, options = transform_of(f) or (None, None, {})
    is_known = transform in (grad, value_and_grad) and "argnums" in options
    if not is_known or options["has_aux"] or options.get("holomorphic"):
        return None
    return transform.__name__, of, options["argnums"]


def _enter_of(f):
    """The option `enter` of what a transform gave; None for others."""
    return (transform_of(f) or (None, None, {}))[2].get("enter")


def _method_of(f) -> tuple | None:
    """The (kind, function, argnums) of what `tg.grad` gave of a compiled function."""
    owner, name = getattr(f, "__self__", None), getattr(f, "__name__", "")
    if (
        isinstance(owner, Compiled)
        and owner._kind == "value"
        and name in ("grad", "value_and_grad")
    ):
        return name, owner, owner._asked()
    return None
