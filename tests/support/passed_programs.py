"""Programs made by hand or recorded, put through passes, and what they compute."""

import numpy as np

import tapegrad as tg
from tapegrad._core.ops.table import BY_CODE
from tapegrad._core.tensor import runtime
from tapegrad._program.build.executable import Program
from tapegrad._program.files.encode import check
from tapegrad._program.ir.elementwise_step import Elementwise
from tapegrad._program.ir.kernel_step import Computed, Kernel
from tapegrad._program.ir.scalars_step import Scalars
from tapegrad._program.ir.steps import GUARD, Code, Input, Output, View
from tapegrad._program.passes.simplification import drop_unread, fold, share_results, simplify
from tapegrad._program.replay.run_layout import FINISHED

runtime.start()  # before anything is compiled
FLOAT = np.dtype(np.float64)
NEW = (fold, simplify, share_results, drop_unread)
AWKWARD = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.3e-308, 1.8e308, -0.3, 1e300]
)


def operations(code):
    """Names of the operations in a program, guards as an empty name."""
    found = []
    for step in code.steps:
        if isinstance(step, Scalars):
            found += ["" if op == GUARD else BY_CODE[op].name for op in step.op]
        elif isinstance(step, Elementwise):
            found += [BY_CODE[op].name for op, _ in step.ops]
        elif isinstance(step, Kernel):
            found.append(BY_CODE[step.code].name)
        elif isinstance(step, Computed):
            found.append(getattr(step.function, "func", step.function).__name__)
        else:
            found.append(type(step).__name__)
    return found


def code_of(program, views=None):
    """The program of one step; its results are what it says, or views."""
    step, n = program.step, len(program.trace.inputs)
    constants = program.initial[1 + n : step.first]
    views = views or [View(slot, (), ()) for slot in program.outputs]
    return Code(
        len(program.initial),
        [(1 + n, constants)] if len(constants) else [],
        [Input(View(1, (n,), (1,)), FLOAT)],
        [step],
        [Output(view, FLOAT) for view in views],
    )


def passed(code, passes=NEW):
    for one in passes:
        code = one(code)
        check(code)
    return code


def evaluated(code, *inputs, seed=0):
    """Results of a program, and gradients for random adjoints of them."""
    program = Program(code)
    run = program.begin()
    inputs = [np.array(one, float) for one in inputs]
    status = program.forward(run, inputs)
    if status != FINISHED:
        return status, None
    results = program.results(run)
    rng = np.random.default_rng(seed)
    seeds = [rng.integers(1, 5, size=one.shape).astype(float) for one in results]
    return results, program.reverse(run, seeds)


def bits(values):
    """Their bits; all NaN alike."""
    values = np.array(values, float)
    return np.where(np.isnan(values), np.nan, values).view(np.int64)


def agree(code, other, *inputs, exact=False):
    (results, gradients), (others, wanted) = evaluated(code, *inputs), evaluated(other, *inputs)
    for a, b in zip(results, others, strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))
    for a, b in zip(gradients, wanted, strict=True):
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            largest = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * largest)


def steps_of(f, *args):
    """The names of the operations in the program of a function that agrees with it."""
    c = tg.compile(f, argnums=tuple(range(len(args))))
    eager = tg.value_and_grad(f, tuple(range(len(args))))
    for _ in range(2):
        (value, found), (right, wanted) = c.value_and_grad(*args), eager(*args)
        np.testing.assert_allclose(value, right, rtol=1e-13)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    assert c._reason is None
    return operations(next(iter(c._families.found.values())).found[0].program.code)


X = np.linspace(-1.0, 1.5, 40)
