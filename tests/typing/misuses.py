"""Mistakes that type checkers find, each in a line that says so; they find nothing else."""

import numpy as np
from numpy.typing import NDArray

import tapegrad as tg

Vector = NDArray[np.float64]
x: Vector = np.ones(2)


def loss(x: Vector, scale: float = 1.0) -> float:
    return scale * np.sum(x**2)


def without_return(x: Vector) -> None:
    np.sum(x)


def scaled(x: Vector, scale: float = 1.0) -> Vector:
    return scale * x


compiled = tg.compile(loss)
t = tg.tensor([1.0, 2.0], requires_grad=True)

tg.grad(without_return)  # mistake: nothing is returned
tg.grad(loss, "scale")  # mistake: a name among the numbers
tg.grad(loss)(x, "2")  # mistake: an argument of another type
tg.grad(loss, has_aux=True)  # mistake: the function returns no pair
tg.jacobian(without_return)  # mistake: nothing is returned
tg.jacobian(scaled, "scale")  # mistake: a name among the numbers
tg.jacobian(scaled)(x, "2")  # mistake: an argument of another type
tg.jacobian(scaled)(x, scael=2.0)  # mistake: no such argument
tg.jacobian(scaled, has_aux=True)  # mistake: the function returns no pair
tg.jacobian(scaled)(x).numpy()  # mistake: an array, and no tensor
tg.jacobian(scaled, argnums=(0, 1))(x, 1.0).tolist()  # mistake: a tuple, and no array
tg.hessian(without_return)  # mistake: nothing is returned
tg.hessian(loss)()  # mistake: no argument
tg.hessian(loss)(x).numpy()  # mistake: an array, and no tensor
tg.hessian(loss, argnum=1)  # mistake: no such argument
tg.vmap(without_return)  # mistake: nothing is returned
tg.vmap(loss, in_axis=1)  # mistake: no such argument
tg.vmap(scaled)(x).numpy()  # mistake: an array, and no tensor
tg.jvp(loss, x, x)  # mistake: primals without a tuple
tg.hvp(loss)(x)  # mistake: no vector
tg.compile(loss, on_branch="ignore")  # mistake: no such choice
compiled.gradient(x)  # mistake: no such method
compiled.jacobian(x, "2")  # mistake: an argument of another type
compiled.hessian(x, sacle=2.0)  # mistake: no such argument
compiled.hessian(x).numpy()  # mistake: an array, and no tensor
compiled.hvp(x)  # mistake: no vector
compiled.map(x)[1].numpy()  # mistake: an array, and no tensor
compiled(x, sacle=2.0)  # mistake: no such argument
tg.tensor([1.0], require_grad=True)  # mistake: no such argument
tg.exp(t, t)  # mistake: too many operands
t.grad.numpy()  # mistake: there may be no gradient yet
t.backwards()  # mistake: no such method
