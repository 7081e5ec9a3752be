"""What a user writes: type checkers find nothing in it, and it runs. See `test_typing`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad import math, nn, optim
from tapegrad.scipy import special

Vector = NDArray[np.float64]
x: Vector = np.array([1.0, 2.0])


def loss(x: Vector, scale: float = 1.0) -> float:
    return scale * np.sum(x**2)


def with_residuals(x: Vector) -> tuple[float, Vector]:
    return np.sum(x**2), x - 1.0


def of_tree(p: dict[str, float]) -> float:
    return p["a"] * math.exp(p["b"])


# --- transforms: derivatives are of the types of the arguments ----------------------------------
assert_type(tg.grad(loss)(x, scale=2.0), Vector)
assert_type(tg.value_and_grad(loss)(x), tuple[float, Vector])
assert_type(tg.grad(with_residuals, has_aux=True)(x), tuple[Vector, Vector])
assert_type(tg.grad(of_tree)({"a": 1.0, "b": 2.0}), dict[str, float])
assert_type(tg.grad(loss, argnums=(0, 1))(x, 1.0), tuple[Any, ...])
assert_type(tg.grad(loss, argnames=("x", "scale"))(x, scale=1.0), tuple[Any, ...])
hessian = tg.hessian(loss)(x)
assert_type(tg.hvp(loss)(x, x), Vector)
assert_type(tg.jvp(loss, (x,), (x,)), tuple[float, float])
value, back = tg.vjp(loss, x, 1.0)
of_x, of_scale = back(1.0)
of_lambda = tg.grad(lambda v, w: np.sum(v[0] * w))(x, 2.0)
of_ufunc = tg.elementwise_grad(np.tanh)(x)
jacobian = tg.jacobian(lambda v: v**2)(x)
rows = tg.vmap(tg.grad(loss))(np.ones((9, 2)))
tape = tg.record(loss, x)


# --- compiled functions: called as the function is ------------------------------------------------
@tg.compile
def energy(x: Vector, k: float) -> float:
    return k * np.sum(x**3)


@tg.compile(argnums=(0, 1), verify="never")
def other_energy(x: Vector, k: float) -> float:
    return k * np.sum(x**4)


class Model:
    rate = 2.0

    @tg.compile
    def energy(self, x: Vector) -> float:
        return self.rate * np.sum(x)


assert_type(energy(x, k=2.0), float)
assert_type(energy.grad(x, 2.0), Vector)
assert_type(energy.value_and_grad(x, 2.0, out=np.empty(2))[0], float)
assert_type(other_energy.grad(x, 2.0), tuple[Any, ...])
assert_type(Model().energy(x), float)
compiled: tg.Compiled[[Vector, float], float, Vector] = energy
values, gradients = energy.map(np.ones((3, 2)), 2.0, in_axes=(0, None))

# --- tensors --------------------------------------------------------------------------------------
t = tg.tensor([1.0, 2.0], requires_grad=True)
assert_type(t, tg.Tensor)
assert_type(2.0 * t[0] - t @ t + np.float64(1.0), tg.Tensor)
assert_type(tg.tensor(1j) * t, tg.ComplexTensor)
assert_type(1j * t, tg.ComplexTensor)
assert_type(tg.sum(tg.exp(t) * x, axis=0), tg.Tensor)
assert_type(tg.where(x > 0.0, t, 0.0), Any)
assert_type(tg.stack([t, t]).reshape(2, 2).T.sum(axis=0, keepdims=True).shape, tuple[int, ...])
total = (t * tnp.sin(t)).sum() + special.gammaln(t).sum()
total.backward()
if t.grad is not None:
    assert_type(t.grad.numpy(), NDArray[Any])
with tg.no_grad():
    t -= 0.1 * tg.ones(2)


@tg.no_grad()
def shifted(x: Vector, by: float) -> Vector:
    return x + by


@tg.inference_mode()
def doubled(x: Vector) -> Vector:
    return 2.0 * x


assert_type(shifted(x, by=1.0), Vector)

# --- layers and optimizers ------------------------------------------------------------------------
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
optimizer = optim.Adam(model.parameters(), lr=0.01)
error = nn.functional.mse_loss(model(tg.tensor(np.ones((5, 2)))), tg.zeros((5, 1)))
optimizer.zero_grad()
error.backward()
optimizer.step()
(by_engine,) = tg.autograd.grad(model(tg.tensor(np.ones((1, 2)))).sum(), [next(model.parameters())])
assert tg.autograd.gradcheck(lambda v: v**2, (tg.tensor([1.0], requires_grad=True),))
tg.check_grads(loss, (x,))
