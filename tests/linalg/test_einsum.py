"""einsum with any subscripts, diagonals, several seeds: against PyTorch and NumPy."""

import numpy as np
import pytest
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_twin import compare, normal, torch

import tapegrad as tg

EINSUMS = [
    ("ij,jk", "3 4,4 5"),
    ("ij,jk->ki", "3 4,4 5"),
    ("kij,nkj->nki", "5 4 4,20 5 4"),
    ("ij,ij->", "30 4,30 4"),
    ("ij,ij->i", "3 40,3 40"),
    ("ij,ij->j", "30 4,30 4"),
    ("ij,kj->ik", "3 4,5 4"),
    ("i,j->ij", "3,4"),
    ("i,j", "3,4"),
    ("i,i->i", "3,3"),
    ("i,->i", "3,"),
    (",", ","),
    ("ii", "4 4"),
    ("ii->i", "4 4"),
    ("ij->ji", "3 4"),
    ("ijk->j", "3 4 5"),
    ("iji->j", "3 4 3"),
    ("ij->", "3 4"),
    ("ij->ij", "3 4"),
    ("ii,ij->j", "4 4,4 3"),
    ("ij,kl->", "3 4,2 5"),
    ("ij,kl->il", "3 4,2 5"),
    ("...ij,...jk->...ik", "6 3 4,4 5"),
    ("...ij,...jk", "2 1 3 4,7 4 5"),
    ("i...,i...->...", "3 4 5,3 4 5"),
    ("...i->...", "2 3 4"),
    ("...i,...i->...", "2 3 9,3 9"),
    ("abcd,cdef->abef", "2 3 4 5,4 5 6 2"),
    ("abcd,dcef->aebf", "2 3 4 5,5 4 6 2"),
    ("acbd,cedf->aebf", "2 3 4 5,3 6 5 2"),
    ("ab,bc,cd->ad", "3 4,4 5,5 6"),
    ("ab,bc,cd,de", "3 4,4 5,5 6,6 2"),
    ("i,ij,j", "3,3 4,4"),
    ("ij,ij,ij->ij", "3 4,3 4,3 4"),
    ("ij,jk,ki->", "3 4,4 5,5 3"),
    ("bi,io,bo->", "6 3,3 4,6 4"),
    ("ij,jk->ik", "0 4,4 5"),
    ("ij,jk->ik", "3 0,0 5"),
    ("ij,j->", "3 0,0"),
]


@pytest.mark.parametrize("subscripts, shapes", EINSUMS)
def test_einsum(subscripts, shapes):
    arrays = [np.asarray(normal(*map(int, s.split()))) for s in shapes.split(",")]
    compare(
        lambda *x: np.einsum(subscripts, *x),
        lambda *x: torch.einsum(subscripts, *x),
        *arrays,
        like=lambda *x: np.einsum(subscripts, *x),
    )
    # what is not recorded, of floats and of integers
    found, plain = tg.einsum(subscripts, *arrays), np.einsum(subscripts, *arrays)
    assert found.shape == plain.shape
    np.testing.assert_allclose(found, plain, 1e-12, 1e-13)
    whole = [np.rint(a).astype(int) for a in arrays]
    found, plain = tg.einsum(subscripts, *whole), np.einsum(subscripts, *whole)
    assert found.dtype == plain.dtype and np.array_equal(found, plain)


def test_einsum_float32_and_lists():
    a, b = normal(5, 6, dtype=np.float32), normal(6, 7, dtype=np.float32)
    compare(
        lambda x, y: tg.einsum("ij,jk->ki", x, y),
        lambda x, y: torch.einsum("ij,jk->ki", x, y),
        a,
        b,
        rtol=1e-5,
    )
    compare(
        lambda x, y: tg.einsum(x, [0, 1], y, [1, 2], [2, 0]),
        lambda x, y: torch.einsum("ij,jk->ki", x, y),
        a,
        b,
        rtol=1e-5,
    )
    compare(lambda x, y: tg.einsum(x, [..., 1], y, [1, 2]), lambda x, y: x @ y, a, b, rtol=1e-5)


def test_einsum_with_constants():
    a, b, c = normal(4, 5), normal(5, 6), normal(6, 3)
    compare(
        lambda x: np.einsum("ij,jk,kl->il", a, b, x),
        lambda x: torch.tensor(a) @ torch.tensor(b) @ x,
        c,
    )


def test_diagonal_is_a_view():
    a = normal(4, 4)

    def ours(x):
        y = x * 1.0
        np.einsum("ii->i", y)[...] *= 3.0
        return y * y

    compare(ours, lambda x: (x + 2 * torch.diag(torch.diag(x))) ** 2, a)
    plain = tg.zeros((3, 3))
    tg.einsum("ii->i", plain)[...] = 1.0
    np.testing.assert_array_equal(plain.numpy(), np.eye(3))
    x = tg.tensor([2.0], requires_grad=True)
    filled = tg.zeros((3, 3))
    tg.einsum("ii->i", filled)[...] = x
    filled.sum().backward()
    assert x.grad.item() == 3.0


def test_jacobian_carries_several_seeds():
    a, b = normal(3, 4), normal(4, 5)
    full = tg.jacobian(lambda x, y: x @ y, (0, 1))(a, b)
    expected = torch.autograd.functional.jacobian(torch.matmul, (torch.tensor(a), torch.tensor(b)))
    for mine, their in zip(full, expected, strict=True):
        np.testing.assert_allclose(mine, their.numpy(), rtol=1e-12, atol=1e-14)
    c, d = normal(4, 6, 5), normal(7, 4, 5)
    subscripts = "kij,nkj->nik"
    full = tg.jacobian(lambda x, y: np.einsum(subscripts, x, y), (0, 1))(c, d)
    expected = torch.autograd.functional.jacobian(
        lambda x, y: torch.einsum(subscripts, x, y), (torch.tensor(c), torch.tensor(d))
    )
    for mine, their in zip(full, expected, strict=True):
        np.testing.assert_allclose(mine, their.numpy(), rtol=1e-12, atol=1e-14)
    e = normal(9, 8)
    jacobian = tg.jacobian(lambda x: x[::2, ::3] @ x[:3, ::2])(e)
    expected = torch.autograd.functional.jacobian(
        lambda x: x[::2, ::3] @ x[:3, ::2], torch.tensor(e)
    )
    np.testing.assert_allclose(jacobian, expected.numpy(), rtol=1e-12, atol=1e-14)


@st.composite
def contractions(draw):
    """Subscripts of two or three operands with shapes, sizes 1 broadcasting among them."""
    letters = "abcde"
    sizes = {x: draw(st.integers(1, 5)) for x in letters}
    terms, shapes = [], []
    for _ in range(draw(st.integers(2, 3))):
        term = draw(st.permutations(letters))[: draw(st.integers(0, 4))]
        ones = draw(st.lists(st.booleans(), min_size=len(term), max_size=len(term)))
        rare = draw(st.integers(0, 3)) == 0
        terms.append("".join(term))
        shapes.append(
            tuple(1 if one and rare else sizes[x] for x, one in zip(term, ones, strict=True))
        )
    used = sorted(set("".join(terms)))
    out = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    return ",".join(terms) + "->" + "".join(out), shapes


@given(contractions())
@settings(max_examples=rounds(150, 50), deadline=None)
def test_any_contraction(drawn):
    subscripts, shapes = drawn
    arrays = [np.asarray(normal(*shape)) for shape in shapes]
    compare(
        lambda *x: tg.einsum(subscripts, *x),
        lambda *x: torch.einsum(subscripts, *x),
        *arrays,
        rtol=1e-11,
    )
