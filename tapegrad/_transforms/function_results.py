"""Results of functions that are differentiated, and linear maps between them and inputs."""

from __future__ import annotations

import warnings

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.equal_eigenvalues import with_choices
from .._core.tape import store
from .._core.tape.reverse_sweep import Sweep
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.row_listeners import users_level
from .._core.tensor.values import is_recorded, is_tensor, value_of
from .._derivatives.forward_mode import tangents_of
from .._derivatives.hooked import meets_hooks, run_to
from .._derivatives.inputs import plain
from .._derivatives.recorded_reverse import depends_on_others, recorded_adjoints
from .._derivatives.reverse_mode import plant


def with_aux(name, result, inputs):
    """The result of a function with `has_aux`, and the rest with plain arrays in it.

    Tensors that an outer transform may differentiate are unchanged.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"tapegrad.{name}: with has_aux=True the function must return a tuple (result, "
            f"anything); it returned {type(result).__name__}"
        )
    out, aux = result
    leaves = [leaf for _, leaf in tree_leaves(aux)]
    tensors = [leaf for leaf in leaves if is_tensor(leaf)]
    if tensors and not must_record(tensors, inputs):
        aux = tree_build(aux, iter([copied(x) if is_tensor(x) else x for x in leaves]))
    return out, aux


def results_of(name: str, out) -> list:
    """The leaves of a result, which must be numbers or arrays of numbers."""
    outs = [value for _, value in tree_leaves(out)]
    for one in outs:
        if np.asarray(value_of(one)).dtype.kind not in "biufc":
            raise TypeError(
                f"tapegrad.{name}: the function returned {one!r:.60}; a result must be a number, "
                "an array of numbers, or tuples, lists and dicts of them (is a `return` missing?)"
            )
    return outs


def must_record(outs, inputs) -> bool:
    """Whether derivatives of these results must themselves be recorded.

    They must when the results depend on an outer input: of an enclosing transform, or a tensor made
    with `requires_grad=True`.
    """
    recorded = [out for out in outs if is_recorded(out)]
    if not recorded or not (inputs.nested or rt.is_nested() or store.leaves):
        return False
    return inputs.nested or depends_on_others(recorded, inputs.tensors)


def copied(result):
    """A result as the caller expects it, who may write to it: the tape has a copy."""
    return plain(np.array(value_of(result)))


def adjoints_like(outs, adjoint) -> list:
    """The leaves of an adjoint, one for each result."""
    adjoints = [unlisted(a) for _, a in tree_leaves(adjoint)]
    if len(adjoints) != len(outs):
        raise ValueError(
            f"tapegrad.vjp: got {len(adjoints)} adjoints, but the function has {len(outs)} results"
        )
    for one, seed in zip(outs, adjoints, strict=True):
        shape, given = np.shape(value_of(one)), np.shape(value_of(seed))
        if given != shape:
            raise ValueError(f"tapegrad.vjp: an adjoint has shape {given}, but the result {shape}")
    return adjoints


def pulled(outs, inputs, seeds, nested) -> list:
    """Adjoints of the inputs for those of results: recorded, or by the compiled sweep.

    A seed of None is one of zeros.
    """
    pairs = [
        (out, seed)
        for out, seed in zip(outs, seeds, strict=True)
        if is_recorded(out) and seed is not None
    ]
    if nested:
        outs, seeds = [out for out, _ in pairs], [seed for _, seed in pairs]
        return recorded_adjoints(outs, seeds, inputs.tensors, only=True)
    with Sweep(retain=True) as sweep:
        inputs.prepare(sweep)
        for out, seed in pairs:
            seed = np.asarray(value_of(seed), np.asarray(value_of(out)).dtype)
            plant(sweep, out, seed[None])
        run_to(sweep, inputs.tensors)
        return inputs.flat(sweep)


def pushed(outs, inputs, seeds, nested) -> list:
    """Tangents of results for those of inputs; both have an axis of directions first."""
    recorded = [out for out in outs if is_recorded(out)]
    if meets_hooks(recorded, inputs.tensors, gradients=False):
        raise NotImplementedError(
            "tapegrad.register_hook: forward mode computes no gradients with which hooks could be "
            "called; take a reverse derivative: grad, vjp or jacobian"
        )
    made, are_choices = with_choices(lambda: tangents_of(recorded, inputs.tensors, seeds, nested))
    if are_choices:
        _warn_by_reverse(recorded, inputs)
    found = iter(made)
    count = len(value_of(seeds[0])) if seeds else 1
    return [
        next(found) if is_recorded(out) else np.zeros((count, *np.shape(value_of(out))))
        for out in outs
    ]


def _warn_by_reverse(outs, inputs) -> None:
    """A reverse sweep, whose rules warn where results depend on a choice of vectors."""
    rng = np.random.default_rng(0)  # no sum of results should cancel what one depends on
    seeds = [rng.normal(size=np.shape(value_of(out))) for out in outs]
    try:
        pulled(outs, inputs, seeds, False)
    except NotImplementedError:  # as for an `autograd.Function` without `backward`
        warnings.warn(
            "tapegrad: the function reads eigenvectors or singular vectors whose basis or phase is "
            "arbitrary, and has no reverse mode, which would test whether its results depend on "
            "them; if they do, the derivative ignores this part",
            RuntimeWarning,
            stacklevel=users_level(),
        )


def directions(name, inputs, primals, tangents) -> list:
    """The tangents of inputs, each with an axis of one direction first."""
    wanted, given = tree_leaves(primals), tree_leaves(tangents)
    if [place for place, _ in wanted] != [place for place, _ in given]:
        raise ValueError(
            f"tapegrad.{name}: tangents has the entries {[place for place, _ in given]}, primals "
            f"{[place for place, _ in wanted]}; give one tangent for each primal"
        )
    seeds = []
    for tensor, (place, tangent) in zip(inputs.tensors, given, strict=True):
        tangent = unlisted(tangent)
        shape, own = np.shape(value_of(tangent)), np.shape(value_of(tensor))
        if shape != own:
            raise ValueError(
                f"tapegrad.{name}: tangents{place} has shape {shape}, the primal {own}; they must "
                "be equal"
            )
        seed = tangent if is_recorded(tangent) else np.array(value_of(tangent), tensor.dtype)
        seeds.append(PUBLIC["reshape"](seed, (1, *own)))
    return seeds
