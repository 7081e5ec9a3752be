"""Discrete cosine and sine transforms of types 1 to 4, SciPy's, as one linear operation.

It is eᵃ C eᵇ, where C is SciPy's transform of `n` points (not orthogonalized), divided by its
logical size to the power of half of `power`; e multiplies the elements at the ends by √2, and a and
b are `after` and `before`. The ends are the first and the last element for cosines of type 1, the
first for cosines and the last for sines of types 2 and 3; the others have none. With w = e⁻²,

    C₁ᵀ = w C₁ w⁻¹ for cosines,   C₂ᵀ = C₃ e²,   C₃ᵀ = e⁻² C₂,

and the others are symmetric, so that the transposed is of the same form.
"""

from __future__ import annotations

import importlib

import numpy as np

from .declaring import declared
from .fourier_rows import FORWARD_NORMS, along, cut


def _ends(kind: int, sine: bool) -> tuple[int, ...]:
    """The places of the elements that differ from the others."""
    if kind == 1:
        return () if sine else (0, -1)
    return () if kind == 4 else (-1,) if sine else (0,)


def _with_ends(x: np.ndarray, axis: int, ends, exponent: int) -> np.ndarray:
    """The array with its end elements multiplied by √2 to the power of `exponent`; a copy."""
    made = x.copy()
    for place in ends:
        made[along(axis, place)] *= made.dtype.type(2.0 ** (exponent / 2))
    return made


def cosine_transform_vjp(np, g, _out, _x, *, axis, kind, sine=False, before=0, after=0, **static):
    """The transposed, by the identities above."""
    before, after = after, before
    if kind == 1 and not sine:
        before, after = before + 2, after - 2
    elif kind == 2:
        before += 2
    elif kind == 3:
        after -= 2
    static |= {"axis": axis, "kept": _x.shape[axis], "sine": sine, "before": before, "after": after}
    return (cosine_transform(g, kind={2: 3, 3: 2}.get(kind, kind), **static),)


def cosine_transform_jvp(np, t, _out, _x, **static):
    return cosine_transform(t[0], **static)


@declared(
    vjp=cosine_transform_vjp,
    jvp=cosine_transform_jvp,
    example="tg.scipy.fft.dct(x)",
    examples=(
        "tg.scipy.fft.dct(x, 1, 5, norm='ortho') if x.size else tg.scipy.fft.dct(x)",
        "tg.scipy.fft.idct(x, 2, 2, 0, 'forward')",
    ),
)
def cosine_transform(x, *, n, axis, kept, kind, sine=False, power=0, before=0, after=0):
    """A discrete cosine or sine transform, SciPy's, along an axis."""
    fft, ends = importlib.import_module("scipy.fft"), _ends(kind, sine)
    x = cut(x, axis, n)
    x = _with_ends(x, axis, ends, before) if before else x
    out = (fft.dst if sine else fft.dct)(
        x, kind, axis=axis, norm=FORWARD_NORMS[power], orthogonalize=False
    )
    out = _with_ends(out, axis, ends, after) if after else out
    return cut(out, axis, kept)
