"""Programs of float32 and of float64: values and gradients of element-wise chains.

`python -m benchmarks.single_precision` prints a table, beside JAX where it is installed.
"""

import functools

import numpy as np

import tapegrad as tg
from benchmarks import figures, peer_forms
from benchmarks.workload_definitions import cheap_chain


def waves(x, y, functions=np):
    """Return a sum of sines, exponentials and logarithms."""
    f = functions
    return (f.sin(x) * f.exp(-y) + f.log(x) * f.tanh(y)).sum()


FUNCTIONS = {"chain": cheap_chain, "waves": waves}
DTYPES = ["float32", "float64"]


def arguments(dtype):
    """Return two arrays of 10⁶ elements."""
    rng = np.random.default_rng(2)
    return tuple(rng.uniform(0.5, 1.5, 1_000_000).astype(dtype) for _ in range(2))


class Program:
    """Native programs in either precision."""

    params = [list(FUNCTIONS), DTYPES]
    param_names = ["function", "dtype"]

    def setup(self, name, dtype):
        self.arguments = arguments(dtype)
        self.compiled = tg.compile(FUNCTIONS[name], argnums=(0, 1), native=True)
        for _ in range(3):
            self.compiled(*self.arguments)
            self.compiled.value_and_grad(*self.arguments)
        self.compiled.wait()

    def time_value(self, name, dtype):
        self.compiled(*self.arguments)

    def time_value_and_grad(self, name, dtype):
        self.compiled.value_and_grad(*self.arguments)


def of_jax(name, dtype):
    """Return calls of JAX for value, and for value and gradient, that wait for the results."""
    jax = peer_forms.import_jax()
    f = FUNCTIONS[name]
    if name == "waves":
        f = functools.partial(f, functions=jax.numpy)
    given = [jax.numpy.asarray(x) for x in arguments(dtype)]
    both = jax.jit(jax.value_and_grad(f, argnums=(0, 1)))
    return [lambda made=made: jax.block_until_ready(made(*given)) for made in (jax.jit(f), both)]


def seconds_of(calls):
    """Return the least seconds of calls, after the first few."""
    for call in calls:
        call(), call()
    return [figures.best(call, 15) for call in calls]


def main():
    print("ms: value, value and gradient")
    for name in FUNCTIONS:
        for dtype in DTYPES:
            ours = Program()
            ours.setup(name, dtype)
            rows = {
                "tapegrad": [
                    functools.partial(ours.time_value, name, dtype),
                    functools.partial(ours.time_value_and_grad, name, dtype),
                ]
            }
            try:
                rows["JAX"] = of_jax(name, dtype)
            except ImportError:
                print("JAX is not installed")
            for system, calls in rows.items():
                value, both = (1e3 * s for s in seconds_of(calls))
                print(f"{name:8} {dtype} {system:9} {value:8.2f} {both:8.2f}")


if __name__ == "__main__":
    main()
