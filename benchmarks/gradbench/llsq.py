"""Half the squared distance of a polynomial from the sign, at n points of [-1, 1]."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed, numbers


def distance(x, n):
    """Return ½ Σ (sign(tᵢ) − Σⱼ xⱼ tᵢʲ)²."""
    t = np.linspace(-1.0, 1.0, n)
    powers = t[:, None] ** np.arange(len(x))
    return 0.5 * np.sum((np.sign(t) - powers @ x) ** 2)


def read(given):
    """Return the arguments."""
    return np.array(given["x"], float), given["n"]


compiled = tg.compile(distance)
FUNCTIONS = {
    "primal": Timed(read, compiled, float),
    "gradient": Timed(read, compiled.grad, numbers),
}
