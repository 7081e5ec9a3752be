"""`vectorize` of functions that are given recorded values, or give them."""

from __future__ import annotations

import numpy

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.copies import holds_tensor, unlisted
from .._core.tensor.values import dtype_of, is_recorded, is_tensor, shape_of
from ._creators import fresh
from ._lists import as_tensor


class vectorize(numpy.vectorize):
    """NumPy's `vectorize`; with recorded values the function is called element by element."""

    __doc__ = numpy.vectorize.__doc__

    def _vectorize_call(self, func, args):
        if not args:
            return super()._vectorize_call(func, args)
        if not (holds_tensor(args) or rt.in_transform()):
            func, is_plain = _tried(func, args, self.signature or self.otypes)
            if is_plain:
                return super()._vectorize_call(func, args)
        args = [_array(a) for a in args]
        inner = [()] * len(args), None
        if self.signature is not None:
            inner = self._in_and_out_core_dims
        return _called(func, args, *inner, self.otypes)


def _tried(func, args, is_declared):
    """The function, and whether it gives plain numbers; it is called for the first elements.

    Their results are given by its next call. NumPy too calls a function of which nothing is
    declared once more.
    """
    arrays = [] if is_declared else [numpy.asarray(a) for a in args]
    if not arrays or not all(a.size for a in arrays):
        return func, True
    first = [func(*[a.flat[0] for a in arrays])]

    def again(*values):
        return first.pop() if first else func(*values)

    return again, not holds_tensor(first)


def _array(argument):
    argument = as_tensor(argument)
    return argument if is_tensor(argument) else numpy.asarray(argument)


def _called(func, args, inner, outer, otypes):
    """The results for all elements; `inner` and `outer` name axes that a call takes and gives."""
    if len(args) != len(inner):
        raise TypeError(
            f"tapegrad.numpy.vectorize: the signature has {len(inner)} arguments, but {len(args)} "
            "were given"
        )
    sizes: dict[str, int] = {}
    for argument, names in zip(args, inner, strict=True):
        _enter(sizes, shape_of(argument), names)
    cores = [tuple(sizes[name] for name in names) for names in inner]
    pairs = list(zip(args, cores, strict=True))
    shape = numpy.broadcast_shapes(*[shape_of(a)[: len(shape_of(a)) - len(c)] for a, c in pairs])
    wide = [PUBLIC["broadcast_to"](a, shape + c) for a, c in pairs]
    found = [func(*[a[at] if at else a for a in wide]) for at in numpy.ndindex(shape)]
    if not found:
        return _without_calls(shape, sizes, outer, otypes)
    count = len(found[0]) if isinstance(found[0], tuple) else 1
    wanted = count if outer is None else len(outer)
    wanted = len(otypes) if otypes and outer is None else wanted
    rows = [one if isinstance(one, tuple) else (one,) for one in found]
    if any([len(row) != wanted for row in rows]):
        raise ValueError(
            f"tapegrad.numpy.vectorize: the function returned {count} results, but {wanted} are "
            "expected"
        )
    made = []
    for k in range(wanted):
        results = [unlisted(row[k]) for row in rows]
        if outer is not None:
            _enter(sizes, shape_of(results[0]), outer[k], exactly=True)
        made.append(_together(results, shape, otypes and otypes[k], outer is None))
    return made[0] if wanted == 1 else tuple(made)


def _enter(sizes, shape, names, exactly=False) -> None:
    """Note the lengths of named axes, the last ones of a shape."""
    own = shape[len(shape) - len(names) :] if names else ()
    for name, n in zip(names, own, strict=len(own) == len(names)):
        if sizes.setdefault(name, n) != n:
            raise ValueError(
                f"tapegrad.numpy.vectorize: axis {name!r} of the signature has sizes "
                f"{sizes[name]} and {n}; they must be equal"
            )
    if len(own) != len(names) or (exactly and len(shape) != len(names)):
        raise ValueError(
            f"tapegrad.numpy.vectorize: an array of shape {shape} does not have the axes "
            f"{names} of the signature"
        )


def _together(results, shape, otype, is_scalar):
    """One result of all calls, as an array."""
    if is_scalar and any([shape_of(x) for x in results]):
        raise ValueError(
            "tapegrad.numpy.vectorize: the function returned an array for an element; give the "
            "signature= of the function, or use np.stack"
        )
    first = numpy.dtype(otype) if otype else dtype_of(results[0])
    if not any(map(is_recorded, results)):
        made = numpy.array([numpy.asarray(x) for x in results], first)
        return fresh(made.reshape(shape + shape_of(results[0])))[()]
    if not otype and first.kind != "f":
        raise TypeError(
            f"tapegrad.numpy.vectorize: the function returned {first} for the first element, which "
            "sets the dtype of the result, but recorded floats for others; return floats, or give "
            "otypes=[float]"
        )
    made = PUBLIC["stack"](results).astype(first, copy=False)
    return made.reshape(shape + shape_of(results[0])) if shape else made[0]


def _without_calls(shape, sizes, outer, otypes):
    """Results without calls, whose dtypes and axes follow from the arguments."""
    names = [()] * len(otypes or ()) if outer is None else outer
    if not otypes or any([name not in sizes for one in names for name in one]):
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    made = [
        fresh(numpy.empty(shape + tuple(sizes[n] for n in one), otype))
        for one, otype in zip(names, otypes, strict=True)
    ]
    return made[0] if len(made) == 1 else tuple(made)


__all__ = ["vectorize"]
