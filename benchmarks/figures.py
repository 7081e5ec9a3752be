"""Measurements beside the workloads: costs of a scalar operation, memory, growth, start-up.

Each function measures one thing and returns seconds or bytes; `system` is "tapegrad" or "PyTorch".
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from itertools import repeat
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

#: What `call_costs` and `program_growth` measure.
CALLS = ("from Python", "from Numba", "overhead of Python")
GROWTH = ("eager, ns", "converted, ns", "replayed, ns", "held, bytes")

FIRST_GRADIENT = """
import time
import numpy as np
import tapegrad as tg
started = time.process_time()
tg.grad(lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))(np.ones(10))
print(time.process_time() - started)
"""

#: What else a first use may be, as in `startup.track_kernels`.
FIRST_USES = {
    "gradient": FIRST_GRADIENT,
    "compiled calls": """
import numpy as np
import tapegrad as tg
f = tg.compile(lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))
for _ in range(3):
    f.value_and_grad(np.ones(10))
""",
    "Hessian": """
import numpy as np
import tapegrad as tg
tg.hessian(lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))(np.ones(10))
""",
}


def best(call, times):
    """Return the least of the seconds that some calls of `call` take."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def scalar(system):
    """Return a recorded scalar of a system, with the value 1."""
    if system == "tapegrad":
        import tapegrad as tg

        return tg.tensor(1.0, requires_grad=True)
    import torch

    torch.set_num_threads(1)
    return torch.tensor(1.0, dtype=torch.float64, requires_grad=True)


def record(x, operations):
    """Return the end of a chain of products and sums; where x is 1, so is every adjoint in it."""
    x = x * 1.0  # a result, as most operands are, and not an input
    y = x
    for _ in repeat(None, operations // 2):
        y = y * x
        y = y + x
    return y


def scalar_costs(system, operations, times=5):
    """Return the seconds that one scalar operation takes to record, and its reverse step."""
    return costs(scalar(system), operations, times)


def array_costs(size, operations, times=5):
    """Return the seconds that one operation on an array takes to record, and its reverse step."""
    import tapegrad as tg

    return costs(tg.tensor([1.0] * size, requires_grad=True), operations, times)


def costs(x, operations, times):
    """Return the least seconds per operation of recording a chain, and of going back through it."""
    record(x, 1000).sum().backward()
    forward, reverse = [], []
    for _ in range(times):
        started = time.perf_counter()
        y = record(x, operations)
        recorded = time.perf_counter()
        y.sum().backward()
        reverse.append((time.perf_counter() - recorded) / operations)
        forward.append((recorded - started) / operations)
        del y
    return min(forward), min(reverse)


def step_with_a_write(steps):
    """Return the mean seconds of a short step with an index write and of its backward pass."""
    import tapegrad as tg

    x = tg.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)

    def step():
        f = x * 2.0
        f[1:] = np.sin(f[:-1])
        (np.sum(f * f) + x[0] * x[1]).backward()

    step()
    return best(lambda: [step() for _ in range(steps)], 1) / steps


def gradient_beside_a_parameter(operations, times=5):
    """Return the seconds of a gradient by `tg.grad` while there is a tensor that requires some."""
    import tapegrad as tg

    parameter = tg.tensor(np.ones(3), requires_grad=True)
    gradient = tg.grad(lambda x: record(x, operations))
    seconds = best(lambda: gradient(1.0), times)
    assert parameter.grad is None
    return seconds


def operation_costs(name, size, operations, times=5):
    """Return the seconds that one row of an op takes to record, and its reverse step."""
    import tapegrad as tg
    from tapegrad._core.ops import sample_inputs as samples
    from tapegrad._core.ops.table import TABLE

    call, inputs = samples.example(TABLE[name], (size,), np.random.default_rng(0), tg)

    def rows(*tensors):
        return [call(*tensors) for _ in range(operations)]

    results, back = tg.vjp(rows, *inputs)
    seeds = [np.ones_like(result) for result in results]
    forward = best(lambda: tg.vjp(rows, *inputs), times) / operations
    return forward, best(lambda: back(seeds), times) / operations


def cost_per_node(operations, seconds=1.0):
    """Return the seconds per node of recording a chain of scalars and going back through it."""
    x = scalar("tapegrad")

    def both():
        record(x, operations).backward()

    both()
    once = best(both, 1)
    return best(both, max(2, min(1000, int(seconds / once)))) / operations


def in_fresh_process(code, cache=None):
    """Run Python code in a process of its own; return what it prints and the seconds it took.

    That process imports the same tapegrad as this one, wherever it lies.
    """
    package = importlib.util.find_spec("tapegrad").origin
    paths = [str(Path(package).parent.parent), str(ROOT)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as modules are for a user: compiled once
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tempfile.gettempdir(),  # a process looks for modules in its folder first
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"a fresh process failed:\n{done.stderr}")
    return done.stdout.strip(), seconds


def small_program():
    """Return the program of `small` with native code, and its argument."""
    import tapegrad as tg
    from benchmarks import workload_definitions as definitions

    function, (x,) = definitions.WORKLOADS["small"]()
    program = tg.compile(function, native=True)
    program.value_and_grad(x)
    program.wait()
    program.value_and_grad(x)  # compared with the function
    return program, x


def call_costs(many=20_000):
    """Return the seconds of one value and gradient of `small` from Python and from Numba.

    Their difference is what a call from Python costs beyond what is computed.
    """
    program, x = small_program()
    jitted = calls_from_numba(program.numba(x)[1])

    def from_python():
        for _ in repeat(None, many):
            program.value_and_grad(x)

    found = np.empty_like(x)
    jitted(x, found, 1)
    python = best(from_python, 9) / many
    numba = best(lambda: jitted(x, found, many), 9) / many
    return dict(zip(CALLS, (python, numba, python - numba), strict=True))


def calls_from_numba(value_and_grad):
    """Return a jitted function of x, a gradient and how often to call."""
    import numba

    @numba.njit
    def calls(x, found, many):
        total = 0.0
        for _ in range(many):
            total += value_and_grad(x, found)
        return total

    return calls


def map_costs(rows, threads=(1, 2), times=5):
    """Return pairs of a number of threads, and the seconds per row of `map` over starts."""
    program, x = small_program()
    starts = x + np.random.default_rng(8).normal(size=(rows, x.size))
    program.map(starts)
    return [(n, best(lambda n=n: program.map(starts, threads=n), times) / rows) for n in threads]


def first_calls(workload, times=3):
    """Return the seconds of an eager gradient, and of a new program's first and second call.

    The first records. One of them converts: the second, if the recording is long. The second is
    compared with the function, so it holds an eager call too.
    """
    import tapegrad as tg
    from benchmarks import workload_definitions as definitions

    function, arguments = definitions.WORKLOADS[workload]()

    def eager():
        tg.value_and_grad(function)(*arguments)

    first, second = [], []
    for _ in range(times + 1):  # in the first round kernels may be compiled
        program = tg.compile(function, native=False)
        for found in (first, second):
            found.append(best(lambda program=program: program.value_and_grad(*arguments), 1))
    return best(eager, times + 1), min(first[1:]), min(second[1:])


def filtered(scales, observed):
    """Return minus twice the log-likelihood of a Kalman filter of position and speed."""
    advance, state, covariance, total = np.array([[1, 0.1], [0, 1]]), np.zeros(2), np.eye(2), 0.0
    noise = np.array([[0.01, 0], [0, 0.1]])
    for seen in observed:
        state = advance @ state
        covariance = advance @ covariance @ advance.T + scales[0] * noise
        spread, error = covariance[0, 0] + scales[1], seen - state[0]
        gain = covariance[:, 0] / spread
        state, covariance = state + gain * error, covariance - np.outer(gain, covariance[0])
        total = total + np.log(spread) + error * error / spread
    return total


def filter_costs(observations, times=200):
    """Return the seconds of a gradient of that function: eager, interpreted, native."""
    seen = np.sin(0.1 * np.arange(observations))
    return _tiers(lambda scales: filtered(scales, seen), np.array([0.5, 0.2]), times)


def mixed(parameters, observed):
    """Return the log-likelihood of a mixture of two normal densities, number by number."""
    (a, b, c), total = parameters, 0.0
    share = 1.0 / (1.0 + np.exp(-c))
    for seen in observed:
        first, second = np.exp(-0.5 * (seen - a) ** 2), np.exp(-0.5 * (seen - b) ** 2)
        total = total + np.log(share * first + (1.0 - share) * second)
    return total


def mixture_costs(observations, times=200):
    """Return the same three of that function."""
    seen = np.random.default_rng(0).normal(size=observations).tolist()
    return _tiers(lambda parameters: mixed(parameters, seen), np.array([0.5, -0.5, 0.2]), times)


def _tiers(function, x, times):
    """Return the seconds of a gradient: eager, interpreted, native."""
    import tapegrad as tg

    costs = [best(lambda: tg.grad(function)(x), 2)]
    for native in (False, True):
        program = tg.compile(function, native=native, verify="never")
        program.grad(x)
        program.grad(x)
        program.wait()
        costs.append(best(lambda program=program: program.grad(x), times))
    return costs


def irregular(x, operations):
    """Return the end of sums, products and differences of numbers made before, chosen at random.

    The same ones each time: no loop is found in them that could be rolled up.
    """
    pool = [x * (0.1 * k) for k in range(1, 9)]
    choices = np.random.default_rng(9).integers(0, 8, (4, operations // 2)).tolist()
    for a, b, to, kind in zip(*choices, strict=True):
        a, b = pool[a], pool[b]
        made = a * b if kind < 3 else a + b if kind < 6 else a - b
        pool[to] = made * 0.5
    return pool[0]


def program_costs(operations, function=irregular, x=1.0):
    """Return what a program of `function(x, operations)` costs: seconds, and bytes, per operation.

    Meant for a fresh process: memory is what the process grows by.
    """
    import tapegrad as tg

    for count in (1000, operations):  # kernels are compiled in the first round
        before = resident()
        program = tg.compile(
            lambda x, count=count: function(x, count), native=False, verify="never"
        )
        eager = best(lambda count=count: tg.value_and_grad(function)(x, count), 2)

        def call(program=program):
            program.value_and_grad(x)

        two_calls = best(call, 1) + best(call, 1)  # one of them converts
        held, replay = resident() - before, best(call, 5)
    converted = two_calls - eager - replay
    return eager / operations, converted / operations, replay / operations, held / operations


def program_growth(operations):
    """Return name → costs per operation of an irregular scalar program, in a fresh process."""
    code = f"from benchmarks.figures import *; print(*program_costs({operations}))"
    *seconds, held = map(float, in_fresh_process(code)[0].split())
    return dict(zip(GROWTH, [*[1e9 * one for one in seconds], held], strict=True))


def resident():
    """Return the bytes of memory that this process holds; where only the peak is known, that."""
    import resource

    if sys.platform.startswith("linux"):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def growth_per_node(system, operations):
    """Return the bytes by which this process grows per recorded scalar operation."""
    x = scalar(system)
    record(x, 1000).backward()
    before = resident()
    y = record(x, operations)
    grown = resident() - before
    del y
    return grown / operations


def bytes_per_node(system, operations):
    """Return the memory that one recorded scalar operation holds, in a fresh process."""
    call = f"growth_per_node({system!r}, {operations})"
    return float(in_fresh_process(f"from benchmarks.figures import *; print({call})")[0])


def import_time(module, times=5):
    """Return the seconds that importing a module takes after NumPy, in a fresh process."""
    code = f"""
import time
import numpy
started = time.perf_counter()
import {module}
print(time.perf_counter() - started)
"""
    return min(float(in_fresh_process(code)[0]) for _ in range(times))


def first_gradient(cold, times):
    """Return the seconds from the start of a fresh process to the end of its first gradient.

    A cold cache is an empty folder; a warm one holds what an earlier such process compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        if not cold:
            in_fresh_process(FIRST_GRADIENT, cache=folder)
            return min(in_fresh_process(FIRST_GRADIENT, cache=folder)[1] for _ in range(times))
    seconds = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            seconds.append(in_fresh_process(FIRST_GRADIENT, cache=folder)[1])
    return min(seconds)


def kernels_compiled(code):
    """Return how many kernels a fresh process compiles for some code, its cache being empty."""
    with tempfile.TemporaryDirectory() as folder:
        in_fresh_process(code, cache=folder)
        return len([*Path(folder).rglob("k_*.o")])


def first_gradient_after_import(times):
    """Return the seconds of the processor for the first gradient of a process, the cache warm."""
    with tempfile.TemporaryDirectory() as folder:
        in_fresh_process(FIRST_GRADIENT, cache=folder)
        return min(float(in_fresh_process(FIRST_GRADIENT, folder)[0]) for _ in range(times))
