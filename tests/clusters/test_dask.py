"""Sums over partitions that are tasks of Dask."""

import functools
import logging
import os
import time

import fits
import numpy as np
import pytest

import tapegrad as tg
from tapegrad._program.clusters import transports

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
array = pytest.importorskip("dask.array")

COUNT = 7
LOADERS = [functools.partial(fits.rows, number) for number in range(COUNT)]
W = np.array([0.3, -0.2, 0.5])


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """Dask reports each worker that is lost, and each error of a task."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def client():
    """Workers that are threads of this process."""
    with distributed.Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        yield client


@pytest.fixture(scope="module")
def wanted():
    total = [tg.value_and_grad(fits.misfit)(W, *load()) for load in LOADERS]
    return sum(value for value, _ in total), sum(gradient for _, gradient in total)


def check(found, wanted):
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)


def bits(found):
    return found[0], found[1].tobytes()


def test_each_kind_of_partitions(client, wanted):
    delayed, c = dask.delayed, fits.compiled_misfit
    parts = [load() for load in LOADERS]
    futures = client.map(fits.rows, range(COUNT))
    lazy = [delayed(fits.rows)(number) for number in range(COUNT)]
    halves = [(delayed(x), delayed(y)) for x, y in parts]
    scattered = [tuple(client.scatter(part)) for part in parts]
    seen = set()
    for given in (parts, iter(parts), LOADERS, futures, lazy, halves, scattered):
        found = c.sum(W, given, over=client)
        check(found, wanted)
        seen.add(bits(found))
    assert len(seen) == 1
    values, _ = c.map(W, futures, over=client)
    np.testing.assert_allclose(values, [fits.misfit(W, *part) for part in parts], rtol=1e-13)


def test_arrays_of_dask(client):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 3)), (rng.normal(size=90) > 0) * 1.0
    c, wanted = fits.compiled_misfit, tg.value_and_grad(fits.misfit)(W, x, y)
    lazy = array.from_array(x, chunks=(20, 3)), array.from_array(y, chunks=20)
    check(c.sum(W, lazy, over=client), wanted)
    check(c.sum(W, client.persist(lazy), over=client), wanted)
    squares = tg.compile(lambda w, x: np.sum((x @ w) ** 2))
    check(
        squares.sum(W, lazy[0], over=client),
        tg.value_and_grad(lambda w: np.sum((x @ w) ** 2))(W),
    )
    with pytest.raises(ValueError, match=r"has \(5, 3\) blocks; .* array.rechunk\(\{1: -1\}\)"):
        c.sum(W, (lazy[0].rechunk((20, 1)), lazy[1]), over=client)
    with pytest.raises(ValueError, match="are collections of Dask with 5, 3 blocks; rechunk them"):
        c.sum(W, (lazy[0], lazy[1].rechunk(30)), over=client)
    with pytest.raises(ValueError, match=r"blocks of \(20, .* and \(30, 20, .* rows; rechunk them"):
        c.sum(W, (lazy[0], lazy[1].rechunk(((30, 20, 20, 10, 10),))), over=client)


def test_several_evaluations_send_no_data_and_no_program_again(client, monkeypatch):
    sent, submit = [], transports.OfDask._submitted

    def watched(self, place, request, content):
        sent.append((len(content), sum(map(len, content.values()))))
        return submit(self, place, request, content)

    monkeypatch.setattr(transports.OfDask, "_submitted", watched)
    c = tg.compile(fits.misfit)
    c.value_and_grad(W, *LOADERS[0]())
    with c.distribute(LOADERS, over=client) as total:
        total.value_and_grad(W)
        assert 0 < max(sent)[1] < 10_000  # the program; workers load the partitions themselves
        for _ in range(4):  # Dask may have moved some on a busy machine, which is noticed
            total.value_and_grad(W)
        del sent[:]
        found = [bits(total.value_and_grad(W + k)) for k in range(3)]
        assert sent == []  # workers are called: neither scheduler nor client keeps the arguments
        with monkeypatch.context() as patch:
            patch.setattr(client, "run", lambda *args, **kwargs: 1 / 0)  # a worker is lost
            assert [bits(total.value_and_grad(W + k)) for k in range(3)] == found
        assert sent == [(0, 0)] * 6
        with monkeypatch.context() as patch:  # as if partitions had been moved
            moved = lambda self, request: {**request, "keys": ["moved"]}  # noqa: E731
            patch.setattr(transports.OfDask, "_by_keys", moved)
            assert bits(total.value_and_grad(W)) == found[0]
        assert sent == [(0, 0)] * 8
        total._transport._seconds = 1.0  # other workers can run tasks that take long
        assert bits(total.value_and_grad(W)) == found[0]
        assert len(sent) > 8
    del sent[:]
    c.sum(W, LOADERS, over=client)  # another fit
    assert sent == [(0, 0)] * 2


def test_a_partition_that_fails_is_named(client):
    parts = [functools.partial(fits.broken, number) for number in range(4)]
    given = [fits.rows(0), (np.ones((4, 3)), np.ones(3))]
    for every, error in ((parts, "OSError: file 2"), (given, "ValueError: .* do not broadcast")):
        number = len(every) // 2
        message = rf"partition {number} of {len(every)} failed.*: {error}"
        with pytest.raises(RuntimeError, match=message) as caught:
            fits.compiled_misfit.sum(W, every, over=client)
        assert type(caught.value.__cause__).__name__ in error


def test_a_client_of_coroutines_is_refused():
    class Client:
        asynchronous = True
        nthreads = who_has = submit = gather = None

    with pytest.raises(TypeError, match="over is an asynchronous client of Dask"):
        fits.compiled_misfit.sum(W, LOADERS, over=Client())


def bits_with(client, workers, total):
    """The bits of a sum, shared out among so many workers."""
    client.cluster.scale(workers)
    client.wait_for_workers(workers, timeout=60)
    while len(client.nthreads()) != workers:
        time.sleep(0.01)
    total._transport._looked = -np.inf  # not only after a second
    found = bits(total.value_and_grad(W))
    assert len({*total._transport._places}) == workers
    return found


def test_bits_do_not_depend_on_the_number_of_workers(client, wanted):
    with fits.compiled_misfit.distribute(LOADERS, over=client) as total:
        seen = {bits_with(client, workers, total) for workers in (1, 2, 3, 2)}
        assert len(seen) == 1
        check(total.value_and_grad(W), wanted)


def test_processes_that_are_lost_and_that_join(wanted):
    c = fits.compiled_misfit
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
        c.distribute(LOADERS, over=client) as total,
    ):
        found = total.value_and_grad(W)
        check(found, wanted)
        first = total._transport._places[0]
        victim = client.submit(os._exit, 1, workers=[first], retries=0)
        assert bits(total.value_and_grad(W)) == bits(found)
        victim.release()
        client.wait_for_workers(2, timeout=60)  # another process in its place
        assert bits_with(client, 2, total) == bits(found)
        assert first not in total._transport._places
        cluster.scheduler.allowed_failures = 0
        with pytest.raises(RuntimeError, match="partition 2 of 3 failed: KilledWorker: .* died"):
            c.sum(W, [*LOADERS[:2], fits.ends_processes], over=client)
