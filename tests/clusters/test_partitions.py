"""Sums of compiled functions over partitions, in threads, processes and ranks of MPI."""

import functools
import pickle
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import fits
import numpy as np
import pytest

import tapegrad as tg
from tapegrad._program.clusters import transports, work

COUNT = 7
PARTS = [fits.rows(number) for number in range(COUNT)]
W = np.array([0.3, -0.2, 0.5])


class Ranks:
    """Communicators of so many ranks, each a thread of this process."""

    def __init__(self, size):
        self.size, self.given = size, [None] * size
        self.barrier = threading.Barrier(size, timeout=60)

    def run(self, function):
        """The results of a function of the communicator of each rank."""
        with ThreadPoolExecutor(self.size) as pool:
            return [*pool.map(lambda rank: function(Rank(self, rank)), range(self.size))]


class Rank:
    def __init__(self, ranks, rank):
        self.ranks, self.rank = ranks, rank

    def Get_rank(self):
        return self.rank

    def allgather(self, one):
        self.ranks.given[self.rank] = pickle.dumps(one)
        self.ranks.barrier.wait()
        found = [*map(pickle.loads, self.ranks.given)]
        self.ranks.barrier.wait()
        return found

    def bcast(self, one, root):
        return self.allgather(one)[root]


class Elsewhere:
    """An executor that pickles what is sent, and computes it at once; `sent` are the bytes."""

    _max_workers = 2

    def __init__(self, change=lambda request: request):
        self.sent, self.change = [], change

    def submit(self, function, request, *others):
        content = pickle.dumps((function, self.change(request), *others))
        self.sent.append(len(content))
        future = Future()
        function, *args = pickle.loads(content)
        future.set_result(pickle.loads(pickle.dumps(function(*args))))
        return future

    def shutdown(self):
        pass


def eager_sum(transform, f, *shared, parts=PARTS):
    return sum(transform(f)(*shared, *part) for part in parts)


def test_derivatives_of_a_sum():
    v = np.array([1.0, -2.0, 0.5])
    with ThreadPoolExecutor(2) as pool, fits.compiled_misfit.distribute(PARTS, over=pool) as total:
        value, gradient = total.value_and_grad(W)
        assert type(value) is float and total(W) == value
        np.testing.assert_allclose(value, eager_sum(lambda f: f, fits.misfit, W), rtol=1e-13)
        np.testing.assert_allclose(gradient, eager_sum(tg.grad, fits.misfit, W), rtol=1e-12)
        np.testing.assert_array_equal(total.grad(W), gradient)
        hessian = eager_sum(tg.hessian, fits.misfit, W)
        np.testing.assert_allclose(total.hessian(W), hessian, rtol=1e-11)
        np.testing.assert_allclose(total.hvp(W, v), hessian @ v, rtol=1e-10)
        values, gradients = total.map(W)
        np.testing.assert_allclose(values, [fits.misfit(W, *part) for part in PARTS], rtol=1e-13)
        np.testing.assert_allclose(
            gradients, [tg.grad(fits.misfit)(W, *part) for part in PARTS], rtol=1e-12
        )
        np.testing.assert_array_equal(total.map(W, gradient=False), values)
        assert repr(total) == "<misfit summed over 7 partitions>"
    with pytest.raises(ValueError, match="7 partitions, closed>: make another one by distribute"):
        total(W)


def test_sum_and_map_are_those_of_one_evaluation():
    c = tg.compile(fits.misfit)
    with ThreadPoolExecutor(3) as pool:
        value, gradient = c.sum(W, iter(PARTS), over=pool)
        values, gradients = c.map(W, PARTS, over=pool)
        assert c.sum(W, PARTS, gradient=False, over=pool) == value
    np.testing.assert_allclose(value, values.sum(), rtol=1e-14)
    np.testing.assert_allclose(gradient, gradients.sum(axis=0), rtol=1e-13)


def test_arguments_in_structures_and_several_of_them():
    xs = [np.arange(3.0) + k for k in range(5)]
    p = {"scale": 1.5, "at": np.array([0.1, 0.2, 0.3])}
    with ThreadPoolExecutor(2) as pool:
        value, gradient = tg.compile(fits.named).sum(p, xs, over=pool)
        both = tg.compile(lambda a, b, x: np.sum(a * x) * b, argnums=(1, 0))
        _, pair = both.sum(np.ones(3), 2.0, xs, over=pool)
    np.testing.assert_allclose(value, sum(fits.named(p, x) for x in xs), rtol=1e-14)
    wanted = [tg.grad(fits.named)(p, x) for x in xs]
    for name in p:
        np.testing.assert_allclose(gradient[name], sum(g[name] for g in wanted), rtol=1e-13)
    np.testing.assert_allclose(pair[0], np.sum(xs), rtol=1e-14)
    np.testing.assert_allclose(pair[1], 2.0 * np.sum(xs, axis=0), rtol=1e-14)


def test_arguments_by_name_and_methods():
    class Model:
        def misfit(self, w, x, y):
            return fits.misfit(w, x, y)

    def misfit(x, w, y):
        return fits.misfit(w, x, y)

    wanted = tg.value_and_grad(fits.misfit)(W, *PARTS[0])
    with ThreadPoolExecutor(2) as pool:
        found = tg.compile(fits.misfit, argnames="w").sum(W, PARTS, over=pool)
        by_number = fits.compiled_misfit.sum(W, PARTS, over=pool)
        assert found[0] == by_number[0] and found[1].tobytes() == by_number[1].tobytes()
        both = tg.compile(misfit, argnames=("w", "x"))
        value, (by_w, by_x) = both.sum(PARTS[0][0], W, [PARTS[0][1:]], over=pool)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-13)
        np.testing.assert_allclose(by_w, wanted[1], rtol=1e-12)
        np.testing.assert_allclose(by_x, tg.grad(misfit)(PARTS[0][0], W, PARTS[0][1]), rtol=1e-12)
        values, _ = both.map(PARTS[0][0], W, [PARTS[0][1:]] * 2, over=pool)
        assert values.tolist() == [value, value]
        with pytest.raises(TypeError, match="sum with over takes arguments by position, .* got w"):
            both.sum(PARTS, w=W, over=pool)
        keyword = tg.compile(lambda x, *, w: np.sum(x @ w), argnames="w")
        with pytest.raises(TypeError, match="argnames has 'w', which is no argument by position"):
            keyword.distribute(PARTS, over=pool)
        with pytest.raises(TypeError, match="misfit gives a derivative itself"):
            tg.compile(tg.grad(fits.misfit), argnames="w").distribute(PARTS, over=pool)
        own = tg.compile(Model().misfit)
        named = tg.compile(Model().misfit, argnames="w")
        for call in (own.distribute, own.sum, own.map, named.distribute, named.sum, named.map):
            with pytest.raises(TypeError, match="misfit is a method, and is not eval"):
                call(PARTS, over=pool)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("f", [fits.misfit, fits.branching, fits.halved])
def test_bits_do_not_depend_on_the_number_of_workers_or_on_earlier_calls(f, native):
    if f is not fits.misfit:
        rng = np.random.default_rng(4)
        parts = [(rng.normal(size=3) * 4.0,) for _ in range(COUNT)]
    else:
        parts = PARTS
    others = [W, W + 0.25, 2.0 * W]
    seen = set()
    for workers, before in ((1, []), (2, others), (3, others[1:]), (COUNT, [])):
        c = tg.compile(f, native=native)
        for w in before:
            c.value_and_grad(w, *parts[-1])
        if f is fits.halved:  # by its graph, wherever
            for part in parts[:4]:
                c.value_and_grad(W, *part)
        with ThreadPoolExecutor(workers) as pool, c.distribute(parts, over=pool) as total:
            for w in before:
                total.value_and_grad(w)
            value, gradient = total.value_and_grad(W)
            seen.add((value, gradient.tobytes()))
            assert total(W) == value
    assert len(seen) == 1
    np.testing.assert_allclose(value, eager_sum(lambda f: f, f, W, parts=parts), rtol=1e-12)
    np.testing.assert_allclose(gradient, eager_sum(tg.grad, f, W, parts=parts), rtol=1e-11)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_sums_are_those_of_one_tree(count):
    """However neighbours are spread over workers."""
    rng = np.random.default_rng(count)
    leaves = rng.normal(size=count) * 10.0 ** rng.integers(-8, 8, size=count)

    def total(numbers):
        """The sum of partitions in their order, halves at powers of two."""
        if len(numbers) == 1:
            return leaves[numbers[0]]
        half = 1 << (len(numbers) - 1).bit_length() - 1
        return total(numbers[:half]) + total(numbers[half:])

    for workers in (1, 2, 3, count):
        nodes = {}
        for own in np.array_split(rng.permutation(count), workers):
            part = {(0, int(number)): leaves[number] for number in own}
            work.merge(part, count)
            nodes |= part
        work.merge(nodes, count)
        ((_, found),) = nodes.items()
        assert found == total(range(count))


def test_programs_and_partitions_are_sent_once():
    executor = Elsewhere()
    parts = [fits.rows(number, 2000) for number in range(4)]
    with fits.compiled_misfit.distribute(parts, over=executor) as total:
        first = total.value_and_grad(W)
        data = sum(x.nbytes + y.nbytes for x, y in parts)
        assert data < sum(executor.sent) < 1.2 * data
        del executor.sent[:]
        again = total.value_and_grad(W)
        assert len(executor.sent) == 2 and max(executor.sent) < 1000
        assert first[0] == again[0] and first[1].tobytes() == again[1].tobytes()
        kept = len(work._partitions)
    assert len(work._partitions) == kept - 4
    del executor.sent[:]
    fits.compiled_misfit.sum(W, parts, over=executor)
    assert 4 * data // 4 < sum(executor.sent) < 1.1 * data  # the program is there
    assert len(work._partitions) == kept - 4


def test_a_partition_that_fails_is_named():
    parts = [functools.partial(fits.broken, number) for number in range(4)]
    for pool in (ThreadPoolExecutor(2), Elsewhere()):
        with pytest.raises(RuntimeError) as caught:
            fits.compiled_misfit.sum(W, parts, over=pool)
        pool.shutdown()
        assert str(caught.value).startswith("tapegrad.compile: partition 2 of 4 failed, at ")
        assert str(caught.value).endswith("in broken: OSError: file 2 is damaged")
        assert type(caught.value.__cause__) is OSError


def test_workers_that_cannot_serve_are_refused():
    there, name = {"here": ["tapegrad 9.0", "Python 3.9"]}, f"tapegrad {tg.__version__}"
    executor = Elsewhere(lambda request: {**request, **there})
    message = f"a worker cannot serve: it has {name}, and the process that asks tapegrad 9.0"
    with pytest.raises(RuntimeError, match=message):
        fits.compiled_misfit.sum(W, PARTS, over=executor)

    class Absent:
        def __reduce__(self):
            return exec, ("raise ModuleNotFoundError('no module named theirs')",)

    class Unable(Elsewhere):
        def submit(self, function, request, sent):
            sent = {name: pickle.dumps(Absent()) for name in sent}
            return super().submit(function, {**request, "program": "absent"}, sent)

    message = "it cannot load the function: ModuleNotFoundError: no module named theirs"
    total = fits.compiled_misfit.distribute(PARTS, over=Unable())
    total._transport._name = "absent"
    with pytest.raises(RuntimeError, match=message):
        total(W)


def test_processes():
    """Whichever has a task: results are those of threads; one that ends is reported."""
    with ThreadPoolExecutor(1) as pool:
        wanted = fits.compiled_misfit.sum(W, PARTS, over=pool)
    parts = [functools.partial(fits.rows, number) for number in range(COUNT)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        with fits.compiled_misfit.distribute(parts, over=pool) as total:
            for _ in range(3):
                value, gradient = total.value_and_grad(W)
                assert value == wanted[0] and gradient.tobytes() == wanted[1].tobytes()
        message = "a process of the executor died during the evaluation of partition"
        with pytest.raises(RuntimeError, match=message):
            fits.compiled_misfit.sum(W, [fits.ends_processes, *PARTS], over=pool)


def test_ranks():
    """Each has partitions of its own; one may have none; all have the sums."""
    with ThreadPoolExecutor(2) as pool:
        value, gradient = fits.compiled_misfit.sum(W, PARTS, over=pool)
        values, _ = fits.compiled_misfit.map(W, PARTS, over=pool)

    for bounds in ([0, COUNT], [0, 3, COUNT], [0, 0, 2, COUNT]):

        def fit(comm, bounds=bounds):
            own = PARTS[slice(*bounds[comm.rank : comm.rank + 2])]
            c = tg.compile(fits.misfit)
            found = c.sum(W + comm.rank, own, over=comm)  # the arguments are those of the first
            return found, c.map(W, own, over=comm)[0]

        for found, each in Ranks(len(bounds) - 1).run(fit):
            assert found[0] == value and found[1].tobytes() == gradient.tobytes()
            assert each.tobytes() == values.tobytes()


def test_a_rank_that_fails_fails_all(monkeypatch):
    def fit(comm):
        parts = [functools.partial(fits.broken, 2 * comm.rank + k) for k in range(2)]
        with pytest.raises(RuntimeError, match=r"partition 2 of 4 failed, .* file 2 is damaged"):
            tg.compile(fits.misfit).sum(W, parts, over=comm)
        return True

    assert Ranks(2).run(fit) == [True, True]
    versions = iter([["tapegrad 1"], ["tapegrad 2"]])
    monkeypatch.setattr(transports, "here", lambda: next(versions))
    with pytest.raises(RuntimeError, match="rank 1 has tapegrad ., and rank 0 tapegrad ."):
        Ranks(2).run(lambda comm: tg.compile(fits.misfit).sum(W, PARTS, over=comm))


def test_what_is_refused(tmp_path):
    c, pool = fits.compiled_misfit, ThreadPoolExecutor(1)
    with pytest.raises(TypeError, match="over is 3; it must be a client of Dask, an executor of"):
        c.sum(W, PARTS, over=3)
    with pytest.raises(TypeError, match="the partitions are of type ndarray; give a list"):
        c.sum(W, PARTS[0][0], over=pool)
    with pytest.raises(ValueError, match="there are no partitions to sum over"):
        c.sum(W, [], over=pool)
    with pytest.raises(TypeError, match="map with over takes arguments .* neither in_axes nor thr"):
        c.map(W, PARTS, in_axes=(None, 0), over=pool)
    with pytest.raises(ValueError, match="argument 1 of misfit is differentiated, and 1 come befo"):
        tg.compile(fits.misfit, argnums=(0, 1)).sum(W, PARTS, over=pool)
    with pytest.raises(TypeError, match="was given a recorded tensor; .* derivatives by its meth"):
        tg.grad(lambda w: c.sum(w, PARTS, over=pool)[0])(W)
    with pytest.raises(TypeError, match="misfit gives a derivative itself; compile the function"):
        tg.compile(tg.grad(fits.misfit)).distribute(PARTS, over=pool)
    with pytest.raises(ValueError, match=r"need a function that returns one number; .*\(3,\)"):
        tg.compile(lambda w, x: w * x).sum(W, [W, W], gradient=False, over=pool)
    with pytest.raises(ValueError, match=r"have the shapes \(2,\), \(3,\), and are not stacked"):
        tg.compile(lambda x: np.sum(x * x)).map([W, W[:2]], over=pool)
    c.value_and_grad(W, *PARTS[0])
    c.save(tmp_path / "misfit.npz")
    loaded = tg.load(tmp_path / "misfit.npz")
    np.testing.assert_allclose(
        loaded.sum(W, PARTS[:1], over=pool)[1], tg.grad(fits.misfit)(W, *PARTS[0]), rtol=1e-12
    )
    with pytest.raises(RuntimeError, match="partition 1 of 7 failed: .* has no program in its fil"):
        loaded.sum(W, PARTS, over=pool)
    pool.shutdown()
