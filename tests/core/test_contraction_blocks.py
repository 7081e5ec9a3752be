"""Contractions of many small matrices that are interleaved, at every edge of blocks and tiles.

Values and gradients, recorded and replayed, against NumPy.
"""

import numpy as np
import pytest
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg

RNG = np.random.default_rng(5)


def operand(shape, cut=None):
    """Numbers of this shape; of twice as many along the axis `cut`, every second."""
    wide = [2 * n if axis == cut else n for axis, n in enumerate(shape)]
    steps = tuple(slice(None, None, 2 if axis == cut else 1) for axis in range(len(shape)))
    return RNG.standard_normal(wide)[steps]


def close(found, expected):
    """Compare sums of products of normal numbers, which may be taken in any order."""
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


def check(subscripts, x, y):
    """Values and gradients of einsum, at three places in turn, against NumPy's."""
    terms, out = subscripts.split("->")
    first, second = terms.split(",")
    weights = RNG.standard_normal(np.einsum(subscripts, x, y).shape)

    def loss(x, y):
        return np.sum(np.einsum(subscripts, x, y) * weights)

    product = tg.compile(lambda x, y: np.einsum(subscripts, x, y), native=False, verify="never")
    replayed = tg.compile(loss, argnums=(0, 1), native=False, verify="never")
    for a, b in ((x, y), (1.0 - x, y), (x, y * 2.0)):
        close(product(a, b), np.einsum(subscripts, a, b))
        to_left = np.einsum(f"{out},{second}->{first}", weights, b)
        to_right = np.einsum(f"{out},{first}->{second}", weights, a)
        for evaluate in (tg.value_and_grad(loss, argnums=(0, 1)), replayed.value_and_grad):
            gradients = evaluate(a, b)[1]
            close(gradients[0], to_left)
            close(gradients[1], to_right)


@pytest.mark.parametrize("points", [1, 3, 128, 129, 132, 133, 256, 264, 265, 289])
@pytest.mark.parametrize("subscripts", ["kij,nkj->nki", "nkj,nki->kij", "nki,kij->nkj"])
def test_blocks_of_interleaved_matrices(subscripts, points):
    """A block is at most 128 points here: 32 matrices of 4 × 4, 8 numbers of each for one."""
    sizes = {"k": 32, "i": 4, "j": 4, "n": points}
    shapes = [[sizes[x] for x in term] for term in subscripts.split("->")[0].split(",")]
    check(subscripts, *map(operand, shapes))


@pytest.mark.parametrize("rows", [*range(1, 14), 16, 17, 20, 24, 25, 48, 49])
def test_tiles_of_every_size(rows):
    for columns in (1, 2, 3, 4, 5, 6, 7, 11, 12, 13):
        check("ij,jk->ik", operand((rows, 9)), operand((9, columns)))
    check("bij,bjk->ibk", operand((3, rows, 5)), operand((3, 5, 7)))


def test_more_products_than_a_tile_sums_at_once():
    check("ij,jk->ik", operand((10, 515)), operand((515, 10)))
    check("bij,jbk->ibk", operand((2, 10, 256)), operand((256, 2, 9)))
    check("ji,jk->ki", operand((257, 5)), operand((257, 7), 1))


@pytest.mark.parametrize(
    "subscripts", ["ij,j->i", "ji,j->i", "j,ij->i", "bij,bj->bi", "bji,jb->ib"]
)
@pytest.mark.parametrize("rows", [3, 4, 25, 26, 170, 171, 410, 2731])
def test_vectors(rows, subscripts):
    """A large matrix is multiplied by BLAS, one of at most 48 lines across, too."""
    terms = subscripts.split("->")[0].split(",")
    for columns in (3, 20):
        sizes = {"i": rows, "j": columns, "b": 2}
        shapes = [[sizes[x] for x in term] for term in terms]
        check(subscripts, *map(operand, shapes))
        check(subscripts, *map(operand, shapes, (len(terms[0]) - 1, len(terms[1]) - 1)))
        check(subscripts, *map(operand, shapes, (len(terms[0]) - 2, 0)))


@st.composite
def batches(draw):
    """Subscripts with one or two batch axes, one long axis, in any order in memory; cuts."""
    names = "ijn"
    sizes = dict(zip(names, (draw(st.integers(1, 14)) for _ in names), strict=True))
    sizes[draw(st.sampled_from(names))] = draw(st.integers(90, 400))
    sizes |= {"k": draw(st.integers(1, 30)), "l": draw(st.integers(1, 5))}
    shared = draw(st.sampled_from(["k", "kl"]))
    terms = ["".join(draw(st.permutations(shared + pair))) for pair in ("ij", "jn", "in")]
    cuts = [draw(st.one_of(st.none(), st.integers(0, len(term) - 1))) for term in terms[:2]]
    return f"{terms[0]},{terms[1]}->{terms[2]}", sizes, cuts


@given(batches())
@settings(max_examples=rounds(120, 40), deadline=None)
def test_any_batch(drawn):
    subscripts, sizes, cuts = drawn
    terms = subscripts.split("->")[0].split(",")
    shapes = [[sizes[x] for x in term] for term in terms]
    check(subscripts, *map(operand, shapes, cuts))
