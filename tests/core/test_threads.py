"""Threads share one store: they record, sweep and transform at once, and their tensors meet."""

import contextlib
import sys
import threading
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape import store, workspace
from tapegrad._core.tape.sweeps import Sweep, Writing


def in_threads(count, work):
    """Run work(k) in threads; the first exception comes here."""
    errors = []

    def run(k):
        try:
            work(k)
        except BaseException as error:  # the test fails with it below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.fixture
def switching():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_threads_record_and_sweep_at_once():
    def work(k):
        x = tg.tensor([0.1 * k, 0.5], requires_grad=True)
        for _ in range(400):
            f = x * 2.0
            f[1] = np.sin(x[0]) * f[0]
            loss = np.sum(f * f)
            x.grad = None
            loss.backward()
        a = 0.1 * k
        slope = 8 * a + 2 * (2 * a * np.sin(a)) * (2 * np.sin(a) + 2 * a * np.cos(a))
        np.testing.assert_allclose(x.grad.numpy(), [slope, 0.0], rtol=1e-12)

    in_threads(6, work)


def test_threads_use_transforms_at_once():
    def work(k):
        x = np.linspace(0.1, 1.0, 50 + k)
        for _ in range(60):
            np.testing.assert_allclose(
                tg.grad(lambda x: np.sum(np.exp(x) * x))(x), np.exp(x) * (1 + x), rtol=1e-12
            )

    in_threads(5, work)


def test_tensors_of_threads_meet():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    made = {}

    def work(k):
        y = x * float(k)
        for _ in range(2000):
            y = y * 1.0
        made[k] = y

    in_threads(4, work)
    np.sum(made[1] * made[2] + made[3]).backward()
    assert x.grad.tolist() == [2 * 2 * 1.0 + 3, 2 * 2 * 2.0 + 3]


def test_threads_fill_chunks_in_turns(switching):
    def scalars():
        y = tg.tensor([0.5], requires_grad=True)
        for _ in range(40):
            z = y[0]
            for _ in range(3000):
                z = z * 1.0001
            y.grad = None
            z.backward()
            assert abs(y.grad.item() / 1.0001**3000 - 1) < 1e-11

    def arrays():
        x = tg.tensor(np.linspace(0.0, 1.0, 20_000), requires_grad=True)
        for _ in range(100):
            f = x * 1.0
            x.grad = None
            np.sum(f * f).backward()
            np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy())

    in_threads(3, lambda k: arrays() if k == 0 else scalars())


def passes_at_once(losses, *messages):
    """Run backward() of each loss in a thread; those without an error, which has such a message."""
    barrier, done = threading.Barrier(len(losses)), []

    def work(k):
        barrier.wait()
        try:
            losses[k].backward()
        except RuntimeError as error:
            assert any(message in str(error) for message in messages), error
        else:
            done.append(k)

    in_threads(len(losses), work)
    return done


def test_passes_of_two_threads_over_the_same_rows(switching):
    """Each is right, or says that the rows are used up; the gradients add up."""
    v = np.linspace(0.0, 1.0, 50_000)
    slope = np.cos(np.sin(v) * 1.1) * 1.1 * np.cos(v)  # of sin(1.1 sin v)
    parts = {0: 2 * np.sin(np.sin(v) * 1.1) * slope, 1: 2 * slope}
    for _ in range(30):
        x = tg.tensor(v, requires_grad=True)
        h = np.sin(np.sin(x) * 1.1)
        losses = [np.sum(h * h), np.sum(h * 2.0)]
        del h
        done = passes_at_once(losses, "used up by an earlier backward pass")
        assert done
        np.testing.assert_allclose(x.grad.numpy(), sum(parts[k] for k in done), rtol=1e-12)


class Square(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2.0 * g * x


def with_a_hook(x):
    y = np.sin(x)
    y.register_hook(lambda g: g * 1.0)
    return y * y


def with_writes(x):
    y = x * 1.0
    y[:3] = np.sin(x[3:6])
    return y * y


BY_RULE = {
    "Function": lambda x: Square.apply(np.sin(x)),
    "hook": with_a_hook,
    "writes": with_writes,
    "solve": lambda x: np.linalg.solve(8.0 * np.eye(6) + x[:6, None], x[6:12]),
    "svd": lambda x: np.linalg.svd(x.reshape(6, 4))[1],
    "fft": lambda x: np.abs(np.fft.rfft(x)),
}


@pytest.mark.parametrize("name", BY_RULE)
def test_passes_of_two_threads_over_rows_with_rules(name, switching):
    """A rule in Python may find its row, or those of its operands, used up by the other pass."""
    rng = np.random.default_rng(0)
    v, parts = rng.normal(size=24), []
    for k in range(2):
        x = tg.tensor(v, requires_grad=True)
        y = BY_RULE[name](x)
        np.sum(y * (k + np.arange(len(y)))).backward()
        parts.append(x.grad.numpy())
    for _ in range(40):
        x = tg.tensor(v, requires_grad=True)
        y = BY_RULE[name](x)
        losses = [np.sum(y * (k + np.arange(len(y)))) for k in range(2)]
        done = passes_at_once(losses, "used up", "freed by a backward pass")
        if not done:
            assert x.grad is None
        else:
            wanted = sum(parts[k] for k in done)
            np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-9, atol=1e-12)


def test_an_interrupt_behind_a_rule(monkeypatch):
    """The next sweep has the same memory, and rules of its own."""
    x = tg.tensor(np.ones(3), requires_grad=True)
    usual = Sweep._call_python

    def interrupted(*arguments):
        usual(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "_call_python", interrupted)
        with pytest.raises(KeyboardInterrupt):
            np.sum(Square.apply(x)).backward()
    np.sum(Square.apply(x * 3.0)).backward()
    assert x.grad.tolist() == [18.0] * 3


def test_what_is_used_up_later_waits_for_its_own_readers():
    """Rows of one chunk, of two passes: a reader of the second one began before it ended."""
    first = workspace.begin_reading()
    x = tg.tensor(np.ones(5), requires_grad=True)

    def swept():
        y = np.sin(x * 2.0)
        made = weakref.ref(y._array)
        np.sum(y).backward()
        return made

    before = swept()
    second = workspace.begin_reading()
    later = swept()
    workspace.end_reading(first)
    assert before() is None and later() is not None
    workspace.end_reading(second)
    assert later() is None and not workspace._waiting


def test_a_reader_that_ends_while_a_pass_gives_back(monkeypatch):
    """Nobody else may be left to free what waits for it."""
    reader, reached = workspace.begin_reading(), workspace.Work.reached

    def ended(work):
        workspace.end_reading(reader)
        return reached(work)

    monkeypatch.setattr(workspace.Work, "reached", ended)
    x = tg.tensor(np.ones(5), requires_grad=True)
    y = np.sin(x * 2.0)
    made = weakref.ref(y._array)
    y = np.sum(y)
    y.backward()
    assert made() is None and not workspace._waiting


def test_a_pass_inside_a_pass_lets_go_of_its_arrays():
    """As in checkpoints: what a Function's backward computes and sweeps is gone when it returns."""
    held = []

    class Checkpoint(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with tg.enable_grad():
                inner = x.detach().requires_grad_()
                y = np.sin(inner) * 1.0
                made = weakref.ref(y._array)
                y.backward(g)
            del y
            held.append(made() is not None)
            return inner.grad

    x = tg.tensor(np.linspace(0.0, 1.0, 5), requires_grad=True)
    y = x
    for _ in range(5):
        y = Checkpoint.apply(y)
    np.sum(y).backward()
    assert held == [False] * 5


@contextlib.contextmanager
def another_sweeps(rows):
    """Another thread records so many numbers and sweeps them, again and again, inside."""
    stop = threading.Event()

    def sweep():
        y = tg.tensor([0.5], requires_grad=True)
        while not stop.is_set():
            z = y[0]
            for _ in range(rows):
                z = z * 1.0001
            z.backward()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        yield
    finally:
        stop.set()
        sweeper.join(timeout=60)
    assert not sweeper.is_alive()


def test_one_thread_sweeps_while_another_records():
    x = tg.tensor(np.linspace(0.0, 1.0, 20_000), requires_grad=True)
    with another_sweeps(3000):
        for _ in range(60):
            f = x * 1.0
            f[:10_000] = np.sin(x[10_000:])
            x.grad = None
            np.sum(f * f).backward()
            v = x.detach().numpy()[10_000:]
            np.testing.assert_allclose(
                x.grad.numpy()[10_000:], 2 * v + 2 * np.sin(v) * np.cos(v), rtol=1e-12
            )


def test_a_sweep_leaves_what_others_have_written_alone(switching):
    """Another thread's sweeps pass the rows of an array that this one computes with."""
    v = np.linspace(0.0, 1.0, 200_000)
    x = tg.tensor(v, requires_grad=True)
    written = np.concatenate([np.sin(v[100_000:]), v[100_000:]])
    with another_sweeps(300):
        for _ in range(60):
            f = x * 1.0
            f[:100_000] = np.sin(x[100_000:])
            found = (f * f).detach().numpy()
            np.testing.assert_allclose(found, written * written, rtol=1e-13)


def test_inputs_made_while_a_sweep_is_under_way():
    """The store's tables grow meanwhile; the sweep knows the inputs of when it began."""
    held = []

    @tg.enable_grad()
    def make_many(_):
        size = len(store.table)
        y = held_number * 1.0
        while len(store.order) + len(store.input_slots) <= size:
            held.append(y)
            for _ in range(1 << layout.ROWS_BITS):
                y = y * 1.0
        count = len(store.input_slots)
        while len(store.input_slots) == count:
            held.extend(tg.tensor([1.0], requires_grad=True) for _ in range(1000))

    held_number = tg.tensor([0.5], requires_grad=True)[0]
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = np.sum(x * x)
    y.register_hook(make_many)
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_inputs_die_while_others_are_looked_for(monkeypatch):
    """A look at the inputs that are alive may itself let the last reference to one go."""
    held = [tg.tensor([float(k)], requires_grad=True) for k in range(50)]

    class Dropping(weakref.ref):
        def __call__(self):
            held.clear()
            return super().__call__()

    first = next(iter(store.leaves))
    monkeypatch.setattr(store, "_LOOKS_FOR_LOST", 1)
    monkeypatch.setitem(store.leaves, first, Dropping(store.leaves[first]()))
    with store.lock:
        store.look()
    assert not held and store.statistics()["inputs"] >= 0


def test_a_walk_that_was_kept_from_its_end():
    """The next sweep finds that nobody reads any more; its rows do not pile up."""
    x = tg.tensor(np.ones(5), requires_grad=True)
    walk = Writing([x._id])
    np.sum(np.sin(x * 2.0)).backward()
    assert len(workspace._waiting) == 1
    del walk
    np.sum(np.sin(x * 2.0)).backward()
    assert not workspace._waiting and not workspace._readers


def test_a_sweep_that_was_kept_from_its_end():
    """An interrupt may come before `__exit__`; what it held is let go by the next look."""
    x = tg.tensor(np.ones(5), requires_grad=True)
    sweep, reader = Sweep(), workspace.begin_reading()
    y = np.sum(np.sin(x * 2.0))
    y.backward()
    assert workspace._waiting and store.is_sweeping()
    del sweep, reader, y
    for _ in range(3):
        with store.lock:
            assert not store.is_sweeping()
            store.seal()
            store.look()
        y = tg.tensor(0.5, requires_grad=True)
        for _ in range(9000):
            y = y * 1.0
        del y
    assert not workspace._waiting
    np.sum(x * x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * np.cos(2.0 * np.ones(5)) + 2.0, rtol=1e-13)
