"""The loops of `solvers` in JAX: Newton's steps, as many as suffice, for all data at once.

Run by `solvers` in a process of its own, by a Python that has JAX; it needs nothing else:

    PATH/python -m benchmarks.solvers_in_jax kepler 10000

prints seconds of a call of the jitted value and gradient in float64, of the first, and the results.
"""

import contextlib
import json
import os
import sys
import time

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np  # noqa: E402  (the flags are read when JAX is imported)

with contextlib.suppress(ImportError):  # asv imports every module
    import jax
    import jax.numpy as jnp

_SECONDS = 2.0


def kepler(p, m):
    """Return the sum of squared eccentric anomalies, by five steps of Newton's."""
    x = m
    for _ in range(5):
        x = x - (x - p[0] * jnp.sin(x) - m) / (1.0 - p[0] * jnp.cos(x))
    return jnp.sum(x**2)


def colebrook(p, re):
    """Return the sum of friction factors of a pipe of roughness p[0], by six steps of Newton's."""
    x, scale = 7.0, 2.0 / np.log(10.0)
    for _ in range(6):
        inside = p[0] / 3.7 + 2.51 * x / re
        x = x - (x + scale * jnp.log(inside)) / (1.0 + scale * 2.51 / re / inside)
    return jnp.sum(1.0 / x**2)


def planes(p, a):
    """Return a sum over roots of two unknowns, by six steps of Newton's."""
    x, y = jnp.ones_like(a), jnp.ones_like(a)
    for _ in range(6):
        f, g = x**2 + a * p[0] * y - 4.0, p[1] * x * y + y - 1.0
        fx, fy, gx, gy = 2.0 * x, a * p[0], p[1] * y, p[1] * x + 1.0
        d = fx * gy - fy * gx
        x, y = x - (f * gy - g * fy) / d, y - (fx * g - gx * f) / d
    return jnp.sum(x * y)


#: By name: the function, the parameters, the ends of the data.
PROBLEMS = {
    "kepler": (kepler, [0.3], (0.1, 3.0)),
    "colebrook": (colebrook, [1e-4], (1e4, 1e6)),
    "planes": (planes, [1.2, 0.9], (0.9, 1.4)),
}


def measured(name, count):
    """Return the seconds of a call, of the first one, the value and the gradient."""
    jax.config.update("jax_enable_x64", True)
    function, p, ends = PROBLEMS[name]
    given = jnp.array(p), jnp.linspace(*ends, count)
    call = jax.jit(jax.value_and_grad(function))
    started = time.perf_counter()
    value, gradient = jax.block_until_ready(call(*given))
    first, best = time.perf_counter() - started, float("inf")
    ends = time.perf_counter() + _SECONDS
    while time.perf_counter() < ends:
        started = time.perf_counter()
        jax.block_until_ready(call(*given))
        best = min(best, time.perf_counter() - started)
    return {"seconds": best, "first": first, "value": float(value), "gradient": gradient.tolist()}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
