"""Memory stays flat, rows live exactly as long as they are needed."""

import gc
import random
import weakref

import numpy as np
import pytest
from extent import rounds

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape import native_types, store
from tapegrad._core.tensor.trace import NumpyCall


def statistics():
    """What the store holds, when what other tests left in cycles is gone."""
    gc.collect()
    return store.statistics()


def resident():
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def fill(rows):
    """Record and drop scalar rows: chunks come and go."""
    x = tg.tensor([1.0], requires_grad=True)[0]
    for _ in range(rows):
        x = x * 1.0
    return x


def look():
    """Let the store look for what can go, as it does when it has grown."""
    gc.collect()
    before = store.looks
    store._limits["chunks"] = 0
    store.new_chunk()
    assert store.looks == before + 1


# --- flat memory ------------------------------------------------------------------------------


def step(x):
    f = x * 2.0
    f[1:] = np.sin(f[:-1])
    return np.sum(f * f) + x[0] * x[1]


def run_flat(once, count):
    """Statistics and resident memory must not grow after the first tenth."""
    for _ in range(count // 10):
        once()
    before, memory = statistics(), resident()
    for _ in range(count):
        once()
    after = statistics()
    assert after["chunks"] <= max(2 * before["chunks"], 2 * store.FEWEST_CHUNKS)
    assert after["bytes"] <= max(2 * before["bytes"], 2**24)
    assert after["array_bytes"] <= 2 * store.FEWEST_BYTES
    assert after["inputs"] <= before["inputs"] + 1
    assert resident() - memory < max(2**25, 640 * count)


def test_flat_without_backward():
    x = tg.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)
    run_flat(lambda: step(x), rounds(60_000, 20_000))


def test_flat_with_backward():
    x = tg.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)

    def once():
        step(x).backward()

    run_flat(once, rounds(30_000, 10_000))


def test_flat_with_new_inputs():
    run_flat(lambda: tg.tensor([1.0, 2.0], requires_grad=True) * 2.0, 30_000)


def test_flat_with_transforms():
    run_flat(lambda: tg.value_and_grad(step)(np.ones(4)), rounds(5_000, 1_500))


def calls_held():
    gc.collect()
    return sum(type(one) is NumpyCall for one in gc.get_objects())


def test_dropped_programs_leave_no_calls_of_numpy():
    """Their recordings would wait for a look that some hundred functions do not lead to."""

    def made(k):
        c = tg.compile(lambda x: np.sum(np.where(x > k, x, k * x)) if np.any(x > 0.0) else x[0])
        for sign in (1.0, -1.0, 1.0):
            c.grad(sign * np.array([1.0, -1.0, 2.0]))

    made(0.0)
    before = calls_held()
    for k in range(20):
        made(float(k))
    assert calls_held() <= before + 10


def test_batches_leave_few_calls_of_numpy():
    f = tg.vmap(lambda x: np.sum(np.where(x > 0.0, x, x * x)))
    x = np.linspace(-1.0, 1.0, 30).reshape(10, 3)
    f(x)
    before = calls_held()
    for _ in range(2000):
        f(x)
    assert calls_held() <= before + 1000


def test_flat_in_a_loop_that_keeps_the_last_result():
    x, y = tg.tensor([0.5, 1.0], requires_grad=True), None
    for k in range(60_000):
        y = np.sum(np.tanh(x)) * 2.0
        if k == 10_000:
            before = statistics()
    assert statistics()["chunks"] <= max(2 * before["chunks"], 2 * store.FEWEST_CHUNKS)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 / np.cosh([0.5, 1.0]) ** 2, rtol=1e-14)


def test_flat_when_only_writes_are_recorded():
    x = tg.tensor([0.5, 1.0], requires_grad=True)
    f = tg.zeros(2)
    for _ in range(100):  # the history of f is needed for as long as f lives
        f[:] = x * 2.0
        f[0] = x[1]
    del f

    def once():
        g = tg.zeros(2)
        g[:] = x
        g[0] = x[1]

    run_flat(once, 20_000)


def test_an_old_loss_does_not_keep_new_rows():
    x = tg.tensor([0.5, 1.0], requires_grad=True)
    losses = [np.sum(np.sin(x))]
    look()
    before = statistics()
    for _ in range(30_000):
        (x * 2.0).sum()
    after = statistics()
    assert after["chunks"] <= before["chunks"] + 2 * store.FEWEST_CHUNKS
    losses[0].backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.0]), rtol=1e-14)


def test_a_long_chain_is_kept_while_it_is_needed():
    x = tg.tensor(1.0, requires_grad=True)
    y = x * 1.0
    for _ in range(200_000):
        y = y + x * 1e-5
    y.backward()
    assert x.grad.item() == pytest.approx(3.0)


# --- arrays -----------------------------------------------------------------------------------


def test_big_arrays_go_with_the_backward_pass():
    x = tg.tensor(np.ones(200_000), requires_grad=True)
    y = np.sum(np.exp(x) * x)
    alive = weakref.ref((z := np.sin(x) * 2.0)._array)
    loss = y + z.sum()
    del z
    held = statistics()["array_bytes"]
    assert alive() is not None
    loss.backward()
    assert held - statistics()["array_bytes"] >= 4 * 200_000 * 8
    assert alive() is None


def test_big_arrays_go_without_a_backward_pass():
    x = tg.tensor(np.ones(1_000_000), requires_grad=True)
    first = weakref.ref((x * 2.0)._array)
    most = 0
    gc.collect()
    for _ in range(100):
        y = x * 2.0
        most = max(most, store.statistics()["array_bytes"])
    assert first() is None and most < 4 * store.FEWEST_BYTES
    del y


def test_retained_arrays_stay():
    x = tg.tensor(np.ones(3), requires_grad=True)
    y = x * x
    alive = weakref.ref(y._array)
    loss = y.sum()
    loss.backward(retain_graph=True)
    del y
    look()
    assert alive() is not None
    loss.backward()
    gc.collect()
    assert alive() is None


# --- inputs -----------------------------------------------------------------------------------


def test_an_input_dies_while_a_result_lives():
    x, other = (tg.tensor(np.arange(3.0), requires_grad=True) for _ in range(2))
    y = np.sum(x * x * other)
    del x
    gc.collect()
    fill(100_000)
    y.backward()
    assert other.grad.tolist() == [0.0, 1.0, 4.0]


def test_an_input_dies_while_a_view_lives():
    x = tg.tensor(np.arange(6.0), requires_grad=True)
    view, other = x[1:4], tg.tensor(2.0, requires_grad=True)
    del x
    look()
    more = [tg.tensor(np.full(6, 9.0), requires_grad=True) for _ in range(9000)]
    look()
    y = np.sum(view * view) * other
    y.backward()
    assert other.grad.item() == 1.0 + 4.0 + 9.0
    assert all(m.grad is None for m in more)


def test_inputs_are_used_again():
    gc.collect()
    number = [tg.tensor([1.0], requires_grad=True)._id for _ in range(20_000)]
    # two chunks of inputs, one more for what the rows of the chunk in use still read, and one that
    # was begun before
    assert len(set(number)) <= 4 * 4096 + 8
    kept = [tg.tensor([float(k)], requires_grad=True) for k in range(10_000)]
    assert len({x._id for x in kept}) == 10_000
    sum((x * x for x in kept[::100]), tg.tensor(0.0)).sum().backward()
    for k, x in enumerate(kept):
        assert x.grad is None if k % 100 else x.grad.tolist() == [2.0 * k]


def test_rows_recorded_while_many_inputs_are_made():
    """Making room for inputs must not take the chunk that is being written."""
    for _ in range(3):
        for _ in range(5000):
            tg.tensor([1.0], requires_grad=True)
        x = tg.tensor([2.0, 3.0], requires_grad=True)
        y = np.sum(x * x * x)
        more = [tg.tensor([1.0], requires_grad=True) for _ in range(5000)]
        z = y * 2.0 + more[-1].sum()
        z.backward()
        assert x.grad.tolist() == [24.0, 54.0] and more[-1].grad.tolist() == [1.0]


# --- writes -----------------------------------------------------------------------------------


def test_a_write_is_undone_also_when_only_an_earlier_reader_lives():
    """The reader needs what the array held: the later write stays for as long as it does."""
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = x * 1.0
    y = np.sum(f * f)
    fill(5000)
    f[:] = 0.0
    del f
    fill(5000)
    look()
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_writes_into_forgotten_arrays_do_not_meet_new_rows():
    """A row number may be used again: no old write may still hold it."""
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    keep = []
    for _ in range(6):
        f = x * 1.0
        fill(4000)
        f[:] = x * 2.0
        f[[0, 1]] = x[1:]
        keep.append(x[0] * 1.0)  # in the chunk of the writes
        np.sum(f * f).backward()
        del f
        look()
        x.grad = None
        packed = [x[k % 3] * 2.0 for k in range(9000)]
        total = sum(packed[1:], packed[0])
        total.backward()
        assert x.grad.tolist() == [6000.0] * 3
        x.grad = None


def test_the_history_of_an_array_outlives_its_writers():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    f = tg.zeros(2)
    for k in range(20_000):
        f[k % 2] = f[(k + 1) % 2] * 0.5 + x[k % 2]
    look()
    f[:1].sum().backward()
    # f[0] = x0 + f[1] / 2, f[1] = x1 + f[0] / 2: the fixed point of the last writes
    np.testing.assert_allclose(x.grad.numpy(), [4 / 3, 2 / 3], rtol=1e-12)


# --- random lives -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_random_lives(seed):
    """Tensors of many ages; each knows its own derivative, asked for at a random later time."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    alive = []

    def make():
        x = tg.tensor(rng.normal(size=3), requires_grad=True)
        v = x.detach().numpy()
        kind = choose.randrange(5)
        if kind == 0:
            return x, np.sum(np.sin(x) * x), np.cos(v) * v + np.sin(v)
        if kind == 1:
            f = x * 1.0
            f[1:] = f[:-1] * x[1:]
            f[0] = 0.0
            return x, np.sum(f), np.array([v[1], v[0] + v[2], v[1]])
        if kind == 2:
            y = x[0]
            for _ in range(choose.randrange(3000)):
                y = y * 1.0
            return x, y * x[2], np.array([v[2], 0.0, v[0]])
        if kind == 3:
            f = tg.zeros(3)
            part = f[1:]
            part[:] = x[:2]
            part[[0, 0]] = x[1:]
            return x, np.sum(f * f), np.array([0.0, 2 * v[1], 2 * v[2]])
        return x, np.sum(x[[0, 0, 1]] * 3.0), np.array([6.0, 3.0, 0.0])

    for turn in range(600):
        x, y, wanted = make()
        alive.append((x, y, wanted))
        if turn % 97 == 0:
            look()
        while len(alive) > choose.randrange(1, 60):
            x, y, wanted = alive.pop(choose.randrange(len(alive)))
            if choose.random() < 0.5:
                y.backward(retain_graph=choose.random() < 0.3)
                np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12, atol=1e-14)


def test_memory_is_used_again_whatever_it_holds():
    """Chunks that are closed early leave rows unwritten, which nothing may read."""
    for _ in range(40):
        memory = np.full(layout.CHUNK_BYTES, 0x41, np.uint8)
        native_types.immortal(memory)
        store._spare.append(memory)
    x = tg.tensor(np.ones(3), requires_grad=True)
    f = x * 1.0
    f[0] = x[1] * 2.0
    scalars = [x[i % 3] * 2.0 for i in range(layout.ROWS - 100)]
    for _ in range(8):
        f[1] = tg.asarray(scalars).sum()  # references run out before rows do
    total = np.sum(f)
    total.backward()
    x.grad = None
    look()
    z = x * 1.0
    z[:] = x * x
    np.sum(z).backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    values = tg.grad(lambda v: tg.hessian(lambda y: np.sum(y**3) * v[0])(v).sum())(np.ones(3))
    np.testing.assert_allclose(values, [18.0 + 6.0, 6.0, 6.0], rtol=1e-12)
