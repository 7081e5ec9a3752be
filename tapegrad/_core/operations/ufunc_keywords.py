"""Calls of ufuncs with NumPy's keywords: `out=`, `where=`, `dtype=`, `casting=`, `order=`."""

from __future__ import annotations

import re

import numpy as np

from ..tensor.copies import copy_tensor, in_dtype, unlisted
from ..tensor.operators import written_to
from ..tensor.values import FLOATS, differentiates, dtype_of, is_tensor, value_of
from .shapes import expand_dims, moveaxis


def called(call, ufunc, inputs, out=None, where=True, casting="same_kind", order="K", **kwargs):
    """The result of a ufunc with keywords; `call(ufunc, inputs)` is the call without.

    `subok` has no meaning for tensors. Raises TypeError for keywords that tensors do not have.
    """
    name = ufunc.__name__
    kwargs.pop("subok", None)
    if ufunc.signature is not None and not kwargs.keys().isdisjoint(("axis", "axes", "keepdims")):
        inputs, call = _along_axes(call, ufunc, inputs, kwargs)
    signature = _signature(ufunc, kwargs.pop("dtype", None), kwargs)
    if kwargs:
        raise TypeError(
            f"tapegrad.{name}: the argument {sorted(kwargs)[0]} is not supported on tensors"
        )
    targets = out if out is not None else (None,) * ufunc.nout
    if where is not True and any([target is None for target in targets]):
        raise TypeError(
            f"tapegrad.{name}: where= without out= leaves elements without a value; give out=, "
            "for instance out=tg.zeros_like(x), or use np.where"
        )
    if signature is not None or casting != "same_kind":
        inputs = _in_loop(ufunc, inputs, targets, signature, casting)
    made = call(ufunc, inputs)
    results = made if isinstance(made, tuple) else (made,)
    if order not in ("K", "A"):
        results = [copy_tensor(r, order) if is_tensor(r) and r.ndim else r for r in results]
    options = dict(where=where, casting=casting, broadcast=ufunc.signature is None)
    written = tuple(
        [
            written_to(name, result, target, **options)
            for result, target in zip(results, targets, strict=True)
        ]
    )
    return written if isinstance(made, tuple) else written[0]


def _along_axes(call, ufunc, inputs, kwargs):
    """Operands whose core axes are the last, and a call that moves those of the result back.

    `axis`, `axes` and `keepdims` are taken out of the keywords; see NumPy's generalized ufuncs.
    """
    counts = [len(core.split(",")) if core else 0 for core in _CORES.findall(ufunc.signature)]
    axes, keepdims = kwargs.pop("axes", None), kwargs.pop("keepdims", False)
    if "axis" in kwargs:
        axes = [(kwargs.pop("axis"),)] * ufunc.nin
    if axes is None:
        axes = [tuple(range(-count, 0)) for count in counts]
    axes = [one if isinstance(one, tuple) else (one,) for one in axes]
    kept = keepdims and not counts[-1]
    axes += [axes[0] if kept else ()] * (len(counts) - len(axes))
    if [len(one) for one in axes] != counts[:-1] + [len(axes[-1]) if kept else counts[-1]]:
        raise ValueError(f"tapegrad.{ufunc.__name__}: axes is {axes}; the core has {counts} axes")
    if keepdims and not kept:
        raise TypeError(f"tapegrad.{ufunc.__name__}: keepdims= is for results without core axes")
    *ins, out = axes
    inputs = [moveaxis(x, one, range(-len(one), 0)) for x, one in zip(inputs, ins, strict=True)]

    def moved(ufunc, inputs):
        made = call(ufunc, inputs)
        made = expand_dims(made, -1) if kept else made
        return moveaxis(made, range(-len(out), 0), out) if out else made

    return inputs, moved


_CORES = re.compile(r"\(([^)]*)\)")


def _signature(ufunc, dtype, kwargs):
    """The dtypes of a loop that `dtype=` or `signature=` requests; None if neither is given."""
    given = kwargs.pop("signature", kwargs.pop("sig", None))
    if given is None and dtype is not None:
        return (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    if isinstance(given, str):
        ins, _, outs = given.partition("->")
        return tuple([np.dtype(letter) for letter in ins + outs])
    return None if given is None else tuple([d if d is None else np.dtype(d) for d in given])


def _in_loop(ufunc, inputs, targets, signature, casting):
    """The inputs in the dtypes of the loop that NumPy chooses."""
    inputs = [unlisted(x) for x in inputs]
    weak = (int, float, complex)
    kinds = [type(x) if type(x) in weak else dtype_of(x) for x in inputs]
    outs = [None if target is None else dtype_of(target) for target in targets]
    options = {} if signature is None else {"signature": signature}
    try:
        dtypes = ufunc.resolve_dtypes((*kinds, *outs), casting=casting, **options)
    except TypeError as error:
        raise TypeError(f"tapegrad.{ufunc.__name__}: {error}") from None
    return [_cast(ufunc.__name__, x, d) for x, d in zip(inputs, dtypes[: ufunc.nin], strict=True)]


def _cast(name: str, x, dtype):
    if differentiates(x):
        if dtype not in FLOATS:
            raise TypeError(
                f"tapegrad.{name}: a recorded tensor would be converted to {dtype}; only float64 "
                "and float32 have derivatives: use one of these, or detach()"
            )
        return in_dtype(x, dtype)
    if is_tensor(x):
        return x.astype(dtype, copy=False)
    return np.asarray(value_of(x), dtype)
