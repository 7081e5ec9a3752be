"""Functions read into graphs and called by every back end, beside the same called eagerly."""

import numpy as np
from naive_flow import Run

import tapegrad as tg
from tapegrad._flow.ir.frame import FINISHED
from tapegrad._flow.native.flow_functions import compiled
from tapegrad._flow.passes.simplify import simplified
from tapegrad._flow.passes.tangents import with_tangents
from tapegrad._flow.program import FlowProgram, Functions
from tapegrad._flow.reading.readings import GivenInput, read

VECTORS = [np.array([0.7, -1.3, 2.1, 0.4]), np.array([-0.2, 3.0, -1.5, 1.1])]


def given(args, argnums, exact=True):
    """What `read` takes for arguments that are floats and arrays."""
    wanted = (argnums,) if isinstance(argnums, int) else argnums
    kinds = [(k in wanted, np.asarray(one)) for k, one in enumerate(args)]
    return [
        GivenInput(a.dtype.kind, a.shape if is_wanted or exact else (None,) * a.ndim, is_wanted)
        for is_wanted, a in kinds
    ]


class Graphs:
    """The graph of a function of floats and arrays, in each back end.

    `calls` are arguments, the first of which say what the graph is read for.
    """

    def __init__(self, f, args, argnums=0, exact=True, native=True):
        self.f, self.argnums = f, argnums
        self.reading, again = [read(f, given(args, argnums, exact), []) for _ in range(2)]
        self.plain = again.graph
        graph = simplified(self.reading.graph)
        self.programs = [FlowProgram(graph)]
        if native:
            self.programs.append(FlowProgram(graph, Functions(**compiled(graph), data=0)))
        which = [k for k, one in enumerate(graph.inputs) if one.differentiated]
        self.tangents = FlowProgram(simplified(with_tangents(graph, which)))

    def check(self, *args, left=None):
        """Value, gradient and Hessian-vector product are the function's; or a reason to leave."""
        values = [*[np.ascontiguousarray(x, float) if np.ndim(x) else x for x in args]]
        values += self.reading.hidden
        if left is not None:
            for program in self.programs:
                assert left in program.run(values, True).reason
            return
        value, gradients = tg.value_and_grad(self.f, self.argnums)(*args)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        naive = Run(self.plain, values)
        assert naive.status == FINISHED, naive.graph.reasons[naive.reason]
        same([*naive.results, *naive.gradients()], [value, *gradients])
        for program in self.programs:
            outcome = program.run(values, True)
            assert outcome.status == FINISHED, outcome.reason
            same([*outcome.results, *outcome.gradients], [value, *gradients])
        if isinstance(self.argnums, int):
            self._check_along(values, args)

    def _check_along(self, values, args):
        x = args[self.argnums]
        v = np.random.default_rng(3).normal(size=np.shape(x))
        v = v if v.shape else float(v)
        outcome = self.tangents.run([*values, v], True, (0.0, 1.0))
        rest = list(args)

        def of_one(x):
            rest[self.argnums] = x
            return self.f(*rest)

        same([outcome.gradients[0]], [tg.hvp(of_one)(x, v)])


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def read_for_vectors(f, exact=True):
    """`f` read for one vector, of any length or of that of VECTORS."""
    return read(f, [GivenInput("f", VECTORS[0].shape if exact else (None,), True)], [])


def check(f, exact=True, may_leave=False):
    """Value and gradient of the graph are those of `f`; returns how often the graph was left."""
    reading, left = read_for_vectors(f, exact), 0
    for x in VECTORS:
        run = Run(reading.graph, [x, *reading.hidden])
        if run.status != FINISHED:
            assert may_leave, reading.graph.reasons
            left += 1
            continue
        value, gradient = tg.value_and_grad(f)(x)
        np.testing.assert_allclose(run.results[0], value, rtol=1e-12)
        np.testing.assert_allclose(run.gradients()[0], gradient, rtol=1e-10, atol=1e-14)
    return left
