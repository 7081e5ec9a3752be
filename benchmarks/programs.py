"""Functions compiled by `tg.compile`: their steady calls, and what else they cost."""

import functools

import numpy as np

import tapegrad as tg
from benchmarks import figures, workload_definitions

prepared = functools.cache(workload_definitions.replayed)


class Replayed:
    """One call replays a program; it was recorded, compiled and verified before."""

    params = [list(workload_definitions.WORKLOADS), ["replay", "native"]]
    param_names = ["workload", "tier"]
    timeout = 300

    def setup(self, name, tier):
        """Make the program."""
        self.call = prepared(name, tier == "native")

    def time_value_and_gradients(self, name, tier):
        """Compute the value and the gradients to all arguments."""
        self.call()


class Matrices:
    """A factor of a matrix of 10 by 10, and the solution of equations with it."""

    params = [["cholesky", "solve"], ["eager", "replay"]]
    param_names = ["operation", "tier"]

    def setup(self, name, tier):
        """Make the programs."""
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 10, 10))
        self.at, self.along = a @ a.T + 10.0 * np.eye(10), b
        function = {
            "cholesky": lambda a: np.sum(np.linalg.cholesky(a) * 1.5),
            "solve": lambda a: np.sum(np.linalg.solve(a, b) * 1.5),
        }[name]
        compiled = tg.compile(function, native=False)
        eager = function, tg.value_and_grad(function), tg.hvp(function)
        self.calls = eager if tier == "eager" else (compiled, compiled.value_and_grad, compiled.hvp)
        for _ in range(3):
            self.time_value(name, tier)
            self.time_value_and_gradient(name, tier)
            self.time_hessian_product(name, tier)

    def time_value(self, name, tier):
        """Compute the value."""
        self.calls[0](self.at)

    def time_value_and_gradient(self, name, tier):
        """Compute the value and the gradient."""
        self.calls[1](self.at)

    def time_hessian_product(self, name, tier):
        """Compute the product of the Hessian with a matrix."""
        self.calls[2](self.at, self.along)


def track_call(how):
    """One value and gradient of Rosenbrock's function of 10 variables."""
    return 1e9 * figures.call_costs()[how]


track_call.unit = "ns"
track_call.params = list(figures.CALLS)
track_call.param_names = ["how"]


def track_map(threads):
    """One row of 10⁴ starts of the same function."""
    ((_, seconds),) = figures.map_costs(10_000, [threads])
    return 1e9 * seconds


track_map.unit = "ns"
track_map.params = [1, 2]
track_map.param_names = ["threads"]


def track_first_calls(workload):
    """The first two calls, which record, convert and verify, over two eager ones."""
    eager, first, second = figures.first_calls(workload)
    return (first + second) / (2 * eager)


track_first_calls.unit = "ratio"
track_first_calls.params = ["lorenz", "lynx_hare", "small", "gmm", "heat"]
track_first_calls.param_names = ["workload"]
track_first_calls.timeout = 300


def track_filter(tier):
    """A gradient of a Kalman filter of 2 x 2 matrices over 1000 observations."""
    return 1e6 * dict(zip(TIERS, figures.filter_costs(1000), strict=True))[tier]


def track_mixture(tier):
    """A gradient of the likelihood of a mixture, a loop over 1000 observations."""
    return 1e6 * dict(zip(TIERS, figures.mixture_costs(1000), strict=True))[tier]


TIERS = ["eager", "interpreted", "native"]
for track in (track_filter, track_mixture):
    track.unit, track.params, track.param_names, track.timeout = "µs", TIERS, ["tier"], 300


def track_scalars(operations, what):
    """An irregular program of scalars, per operation."""
    return figures.program_growth(operations)[what]


track_scalars.unit = "ns or bytes"
track_scalars.params = [[10**power for power in range(3, 7)], list(figures.GROWTH)]
track_scalars.param_names = ["operations", "what"]
track_scalars.timeout = 300
