"""Functions of arrays with complex operands, against NumPy: values, derivatives, programs."""

import numpy as np
import pytest
from declared import example_of

import tapegrad as tg
from tapegrad._core.ops.table import COMPLEX
from tapegrad._core.tensor.registry import load_families

load_families()

#: Of a complex z of shape (3, 4), a real x of that shape and a complex vector w of length 4.
EXPRESSIONS = """
np.sum(z)
np.sum(z, axis=0)
np.sum(z, axis=(0, 1), keepdims=True) * x
np.sum(z, initial=2.0 + 1j)
np.sum(z, where=np.array([True, False, True, True]))
np.mean(z, axis=1)
z.mean() + z.sum(axis=-1)
np.prod(z, axis=0)
np.prod(z)
np.prod(z, axis=-1, keepdims=True)
np.cumsum(z, axis=1)
np.var(z, axis=0)
np.std(z) + np.var(z, ddof=1)
np.trace(z)
np.diff(z, axis=1)
np.diff(z, prepend=1.0)
np.gradient(w)
np.reshape(z, (4, 3))
z.reshape(-1)[::2]
np.ravel(z.T)
z.flatten()
np.transpose(z) @ x
z.T[1:]
z.swapaxes(0, 1)
np.moveaxis(z[None], 0, -1)
np.squeeze(z[None]) * np.expand_dims(w, 0)
np.broadcast_to(w, (2, 4))
np.concatenate([z, x])
np.concatenate([x, z, x], axis=1)
np.stack([w, x[0], 1j * x[1]])
np.vstack([z, w]) * np.hstack([w[:2], w[:2]])
np.column_stack([w, x[0]])
np.block([[z, x]])
np.split(z, 2, axis=1)[1]
np.array_split(w, 3)[0]
np.tile(w, 2)
np.repeat(w, 2)
np.roll(z, 1, axis=1)
np.flip(z, 0) + np.rot90(z).T
np.pad(w, (1, 2))
np.append(w, x[0])
np.insert(w, 1, 2.0)
np.delete(z, 1, axis=0)
np.take(z, [0, 0, 2], axis=1)
np.take_along_axis(z, np.array([[1], [0], [3]]), axis=1)
np.where(x > 0, z, x)
np.where(x > 0, 1j, z)
np.select([x > 0.3, x > 0], [z, x], 1j)
np.choose([0, 1, 0, 1], [w, x[0]])
np.diag(w)
np.diagonal(z)
np.tril(z) + np.triu(z, 1)
np.triu(w)
np.trim_zeros(np.append(w, 0.0))
np.polyval(w, z)
np.polyval(x[0], w) + np.polyval([1j, 2.0, x[0, 0]], w)
np.polymul(w, x[0]) * np.polyadd(1j, x[0])[0] - np.polysub(w, x[0])[1]
np.polyder(w) * np.polyint(w, 1, 1j)[-1]
np.poly(w)
z[0] * z[1:, 2:3]
z[[0, 2, 2], [1, 1, 3]]
z[x > 0]
z[..., None][1]
z @ w
x @ np.conj(w)
z @ x.T
z @ np.conj(z).T
w @ w
np.matmul(z[None], z.T)
np.dot(w, x[0]) * np.inner(w, w)
np.dot(z, 2.0 + 1j)
np.vdot(w, z[0])
np.vdot(w, w).real
np.vecdot(z, w)
np.outer(w, x[0])
np.tensordot(z, z, axes=([0, 1], [0, 1]))
np.kron(w, x[0])
np.einsum("ij,j->i", z, w)
np.einsum("ij,kj->ik", z, x)
np.einsum("i,i,i->", w, x[0], w)
np.einsum("ij->j", z)
np.convolve(w, x[0])
np.convolve(w, w, mode="same")
np.correlate(w, w, mode="full")
np.correlate(x[0], w, mode="full")
np.cross(z[0, :3], z[1, :3])
np.linalg.norm(z)
np.linalg.norm(w, 1) + np.linalg.norm(w, np.inf) + np.linalg.norm(z, axis=0)[1]
np.real(z) * np.imag(z)
np.conj(z) * np.abs(z)
np.angle(z) + np.abs(z) ** 2
np.nan_to_num(np.abs(z))
np.add.reduce(z) + np.multiply.reduce(z)
np.add.outer(w, w) * np.multiply.outer(w, x[0])
sum(z[0]) + sum([2 * one for one in w])
np.trapezoid(w)
np.atleast_2d(w) + np.zeros_like(w)
np.meshgrid(w, w)[1]
np.unstack(z)[1]
np.average(z, weights=x * x)
np.pad(z, 1, mode="edge") * np.pad(z, 1, mode="reflect")
(z - z.mean(axis=0)) / np.abs(z)
np.linalg.solve(z[:, :3] + 2 * np.eye(3), w[:3])
np.linalg.inv(z[:, :3] + 2 * np.eye(3))
np.linalg.matrix_power(z[:, :3], 3) + np.linalg.matrix_power(z[:, :3], -2)
np.linalg.multi_dot([z, w[:, None], x[:1]])
np.linalg.det(z[:, :3])
np.linalg.slogdet(z[:, :3])[0] * np.linalg.slogdet(z[:, 1:])[1]
np.linalg.tensorsolve(z[:, :3] + 2 * np.eye(3), w[:3])
np.linalg.solve(z[:, :3] + 2 * np.eye(3), x)
np.linalg.solve(x[:, :3] + 3 * np.eye(3), z)
""".strip().splitlines()


@pytest.fixture
def operands(rng):
    def normal(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    return normal(3, 4), rng.normal(size=(3, 4)), normal(4)


def of(text):
    return eval(f"lambda z, x, w: {text}", {"np": np, "tg": tg})  # the text is the table's


def loss_of(f):
    """A real number of a result, with second derivatives."""

    def loss(*args):
        out = f(*args)
        parts = out if isinstance(out, (tuple, list)) else [out]
        return sum(np.sum(np.real(p) * (0.5 + np.real(p)) + 0.3 * np.imag(p) ** 2) for p in parts)

    return loss


def along(gradients, directions):
    pairs = zip(gradients, directions, strict=True)
    return sum(float(np.sum((np.conj(g) * v).real)) for g, v in pairs)


def moved(args, directions, h):
    return [a + h * v for a, v in zip(args, directions, strict=True)]


def directions_of(args, rng):
    return [
        rng.normal(size=a.shape) + (1j * rng.normal(size=a.shape) if np.iscomplexobj(a) else 0.0)
        for a in args
    ]


def check(f, args, rng):
    """Values, gradients, forward mode, products with the Hessian, and programs elsewhere."""
    loss, all_of = loss_of(f), tuple(range(len(args)))
    found, wanted = f(*[tg.tensor(a) for a in args]), f(*args)
    for one, other in zip(np.atleast_1d(found), np.atleast_1d(wanted), strict=False):
        one = one.detach().numpy() if isinstance(one, (tg.Tensor, tg.ComplexTensor)) else one
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    directions = directions_of(args, rng)
    gradient = tg.grad(loss, all_of)
    slope = along(gradient(*args), directions)
    at = lambda h: loss(*moved(args, directions, h))
    h = 1e-4
    difference = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(tg.jvp(loss, args, directions)[1], slope, rtol=1e-9, atol=1e-11)
    line = lambda t: loss(*[a + t * v for a, v in zip(args, directions, strict=True)])
    second = tg.hessian(line)(0.0)
    up, down = (along(gradient(*moved(args, directions, s)), directions) for s in (1e-5, -1e-5))
    np.testing.assert_allclose(second, (up - down) / 2e-5, rtol=2e-5, atol=1e-5)
    compiled = tg.compile(loss, argnums=all_of)
    for others in (args, moved(args, directions, 0.01)):
        np.testing.assert_allclose(compiled(*others), loss(*others), rtol=1e-11, atol=1e-12)
        pairs = zip(compiled.grad(*others), gradient(*others), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_functions(text, operands, rng):
    check(of(text), operands, rng)


FORMS = [
    (name, text, shape)
    for name, op in COMPLEX.items()
    for text, shape in [(op.example, (4,)), *[(text, (3, 4)) for text in op.examples]]
    if text
]


@pytest.mark.parametrize(
    "name,text,shape", FORMS, ids=[f"{n}-{k}" for k, (n, *_) in enumerate(FORMS)]
)
def test_declared_operations(name, text, shape, rng):
    f = example_of(COMPLEX[name], text)
    x = rng.uniform(0.6, 1.4, shape)
    check(f, [x], rng)
    batch = rng.uniform(0.6, 1.4, (3, *shape))
    loss = loss_of(f)
    np.testing.assert_allclose(tg.vmap(loss)(batch), [loss(one) for one in batch], rtol=1e-12)
    found = tg.grad(lambda b: np.sum(tg.vmap(loss)(b)))(batch)
    np.testing.assert_allclose(found, [tg.grad(loss)(one) for one in batch], rtol=1e-9, atol=1e-10)


def test_matrix_functions_are_torchs(rng):
    torch = pytest.importorskip("torch")
    a = rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4)) + 3.0 * np.eye(4)
    b = rng.normal(size=(4, 2)) + 1j * rng.normal(size=(4, 2))
    hermitian = lambda a: a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(4)
    pairs = [
        (lambda a: np.linalg.solve(a, b), lambda a: torch.linalg.solve(a, torch.tensor(b))),
        (np.linalg.inv, torch.linalg.inv),
        (
            lambda a: np.linalg.cholesky(hermitian(a)),
            lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(4)),
        ),
    ]
    for ours, theirs in pairs:
        t = torch.tensor(a, requires_grad=True)
        (theirs(t) + 0.3).abs().pow(3).sum().backward()
        found = tg.grad(lambda a, ours=ours: np.sum(np.abs(ours(a) + 0.3) ** 3))(a)
        np.testing.assert_allclose(found, t.grad.numpy(), rtol=1e-10, atol=1e-10)


def test_singular_and_other_matrices_raise_as_numpy(operands):
    z = tg.tensor(np.zeros((2, 2)) + 0j, requires_grad=True)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        np.linalg.solve(z, np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="definite"):
        np.linalg.cholesky(z - np.eye(2))
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        np.linalg.inv(tg.tensor(operands[0], requires_grad=True))


@pytest.mark.parametrize("name", ["sort", "floor", "maximum", "max", "median", "clip", "mod"])
def test_what_takes_no_complex_numbers_says_so(name):
    z = tg.tensor([1 + 1j, 2.0], requires_grad=True)
    arguments = {"clip": (z, 0.0, 1.0), "maximum": (z, 1.0), "mod": (z, 2.0)}.get(name, (z,))
    with pytest.raises(TypeError, match=r"an operand is complex.*z\.real"):
        getattr(np, name)(*arguments)
