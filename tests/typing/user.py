"""What a user writes: type checkers find nothing in it, and it runs. See `test_typing`."""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad import math, nn, optim
from tapegrad.scipy import special

Vector = NDArray[np.float64]
_T = TypeVar("_T")
x: Vector = np.array([1.0, 2.0])


def loss(x: Vector, scale: float = 1.0) -> float:
    return scale * np.sum(x**2)


def scaled(x: Vector, scale: float = 1.0) -> Vector:
    return scale * x**2


def with_residuals(x: Vector) -> tuple[float, Vector]:
    return np.sum(x**2), x - 1.0


def residuals_and_more(x: Vector) -> tuple[Vector, str]:
    return x - 1.0, "more"


def with_dict(x: Vector) -> dict[str, Vector]:
    return {"twice": 2.0 * x}


def half_square(t: float) -> float:
    return 0.5 * t * t


def curve(t: float) -> Vector:
    return t * np.array([1.0, 2.0])


def in_single(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return x * x


def magnitude(z: NDArray[np.complex128]) -> Vector:
    return np.abs(z)


def rotated(x: Vector) -> NDArray[np.complex128]:
    return x.astype(np.complex128)


class Point(NamedTuple):
    x: Vector
    y: float


def point(x: Vector) -> Point:
    return Point(x, x[0])


#: Of functions that have no types, derivatives have none.
without_types: Any = scaled


def of_anything(x: _T) -> _T:
    return x


def of_fields(p: Point) -> float:
    return p.y * np.sum(p.x)


def of_tree(p: dict[str, float]) -> float:
    return p["a"] * math.exp(p["b"])


# --- transforms: derivatives are of the types of the arguments ----------------------------------
assert_type(tg.grad(loss)(x, scale=2.0), Vector)
assert_type(tg.value_and_grad(loss)(x), tuple[float, Vector])
assert_type(tg.grad(with_residuals, has_aux=True)(x), tuple[Vector, Vector])
assert_type(tg.grad(of_tree)({"a": 1.0, "b": 2.0}), dict[str, float])
assert_type(tg.grad(loss, argnums=(0, 1))(x, 1.0), tuple[Any, ...])
assert_type(tg.grad(loss, argnames=("x", "scale"))(x, scale=1.0), tuple[Any, ...])
assert_type(tg.hvp(loss)(x, x), Vector)
assert_type(tg.jvp(loss, (x,), (x,)), tuple[float, float])
value, back = tg.vjp(loss, x, 1.0)
of_x, of_scale = back(1.0)
of_lambda = tg.grad(lambda v, w: np.sum(v[0] * w))(x, 2.0)
of_ufunc = tg.elementwise_grad(np.tanh)(x)
tape = tg.record(loss, x)

# --- matrices of derivatives ----------------------------------------------------------------------
assert_type(tg.jacobian(scaled)(x, scale=2.0), Vector)
assert_type(tg.jacobian(loss)(x, 2.0), Vector)
assert_type(tg.jacobian(curve)(2.0), Vector)
assert_type(tg.jacobian(half_square)(2.0), float)
assert_type(tg.jacobian(in_single)(np.ones(2, np.float32)), NDArray[np.float32])
assert_type(tg.jacobian(magnitude)(np.array([3 + 4j])), NDArray[np.complex128])
assert_type(tg.jacobian(rotated)(x), Any)
assert_type(tg.jacobian(of_tree)({"a": 1.0, "b": 2.0}), dict[str, float])
assert_type(tg.jacobian(scaled, argnums=(0, 1))(x, 1.0), tuple[Any, ...])
assert_type(tg.jacobian(scaled, argnames=("x", "scale"))(x, scale=1.0), tuple[Any, ...])
assert_type(tg.jacobian(scaled, argnames="scale")(x, scale=1.0), Any)
assert_type(tg.jacobian(residuals_and_more, has_aux=True)(x), tuple[Vector, str])
assert_type(tg.jacobian(residuals_and_more, (0,), True)(x), tuple[tuple[Any, ...], str])
assert_type(tg.jacobian(tg.jacobian(scaled))(x), Vector)
by_key = tg.jacobian(with_dict)(x)["twice"] + tg.jacobian(with_dict, (0,))(x)["twice"][0]
by_field = tg.jacobian(point, (0,))(x).y[0]
of_any = tg.jacobian(without_types)(x).T + tg.jacobian(of_anything)(x).T
of_lambdas = tg.jacobian(lambda v: v**2)(x) + tg.jacobian(tg.jacobian(lambda v: v[0] ** 2))(x)
of_calls = tg.jacobian(lambda v: scaled(v, 2.0))(x).T + tg.hessian(lambda v: loss(v))(x).T
of_lists = tg.jacobian(lambda v: tnp.array([v[0] * v[1], 2.0 * v[0]]))([1.0, 2.0])
of_parts = tg.jacobian(lambda v: 2.0 * v, has_aux=False)(3.0) + tg.hessian(lambda v: 2.0 * v)(1.0)
assert_type(tg.hessian(loss)(x, scale=2.0), Vector)
assert_type(tg.hessian(half_square)(2.0), float)
assert_type(tg.hessian(loss, argnums=(0, 1))(x, 1.0), tuple[Any, ...])
assert_type(tg.hessian(with_residuals, has_aux=True)(x), tuple[Vector, Vector])
in_tree = tg.hessian(of_tree)({"a": 1.0, "b": 2.0})["a"]["b"]
in_lambda, with_it = tg.hessian(lambda v: (np.sum(v**3), v), has_aux=True)(x)

# --- batches: of numbers, arrays ------------------------------------------------------------------
points = np.ones((9, 2))
assert_type(tg.vmap(loss)(points, scale=2.0), NDArray[Any])
assert_type(tg.vmap(half_square)(points), NDArray[Any])
assert_type(tg.vmap(scaled, in_axes=(0, None))(points, 2.0), Vector)
assert_type(tg.vmap(scaled)(points, np.arange(9.0)), Vector)
assert_type(tg.vmap(with_residuals)(points), tuple[NDArray[Any], ...])
assert_type(tg.vmap(tg.grad(loss))(points), Vector)
assert_type(tg.vmap(tg.jacobian(scaled))(points), Vector)
values, gradients = tg.vmap(tg.value_and_grad(loss))(points)
twice = tg.vmap(with_dict)(points)["twice"] + tg.vmap(point)(points).x
of_each = tg.vmap(tg.hessian(lambda v: np.sum(v**3)))(points)
slopes = tg.vmap(tg.grad(lambda v: v[0] ** 2 + v.sum()))(points).T
along = tg.vmap(lambda v, w: v * w, in_axes=(0, None))(points, 2.0)


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

    @tg.compile(argnames="x")
    def by_name(self, x: Vector) -> float:
        return self.rate * np.sum(x)


assert_type(energy(x, k=2.0), float)
assert_type(energy.grad(x, 2.0), Vector)
assert_type(energy.value_and_grad(x, 2.0, out=np.empty(2))[0], float)
assert_type(other_energy.grad(x, 2.0), tuple[Any, ...])
assert_type(Model().energy(x), float)
assert_type(Model().by_name(x=x), float)
of_name = Model().by_name.grad(x=x)
assert_type(energy.jacobian(x, k=2.0), Vector)
assert_type(energy.hessian(x, 2.0), Vector)
assert_type(energy.hvp(x, x, 2.0), Vector)
assert_type(other_energy.hessian(x, 2.0), tuple[Any, ...])
assert_type(tg.compile(scaled).jacobian(x), Vector)
assert_type(tg.compile(curve).jacobian(2.0), Vector)
assert_type(tg.compile(half_square).hessian(2.0), float)
assert_type(tg.compile(scaled, argnums=(0, 1)).jacobian(x, 2.0), tuple[Any, ...])
assert_type(tg.compile(scaled, argnums=1).jacobian(x, 2.0), Any)
assert_type(tg.compile(of_tree).hvp({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 0.0}), dict[str, float])
assert_type(tg.jacobian(tg.compile(scaled))(x), Vector)
of_point = tg.compile(of_fields).hessian(Point(x, 2.0)).y.x
compiled_lambda = tg.compile(tg.jacobian(lambda v: v**2))(x) + tg.compile(lambda v: v).jacobian(x)
compiled: tg.Compiled[[Vector, float], float, Vector] = energy
assert_type(energy.map(points, 2.0, in_axes=(0, None)), tuple[Vector, Vector])
assert_type(energy.map(points, 2.0, in_axes=(0, None), gradient=False), Vector)
assert_type(energy.sum(points, 2.0, in_axes=(0, None)), tuple[float, Vector])
assert_type(other_energy.map(points, np.ones(9)), tuple[Vector, tuple[Vector, ...]])
assert_type(other_energy.sum(points, np.ones(9)), tuple[float, tuple[Any, ...]])
of_rows = Model().energy.map(points, gradient=False)

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
