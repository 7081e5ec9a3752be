"""Writes while a backward pass is under way: a pass that may have read them is refused."""

import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape.native_types import get_word
from tapegrad._core.tape.workspace import WrittenError

V = np.array([0.3, 0.7])
WANTED = 2.0 * np.cos(V)


class Graph:
    """The sum of 2 sin(f), where f is x; something happens before the pass comes to sin."""

    def __init__(self, happens=None):
        self.x = tg.tensor(V, requires_grad=True)
        self.f = self.x * 1.0
        self.out = np.sin(self.f) * 2.0
        if happens is not None:
            self.out.register_hook(lambda _: happens(self))

    def gradient(self, **options):
        np.sum(self.out).backward(**options)
        return self.x.grad.detach().numpy()


def through_the_tape(graph):
    with tg.enable_grad():
        graph.f[0] = 5.0


def in_place(graph):
    with tg.enable_grad():
        graph.f += 1.0


def of_a_view(graph):
    with tg.enable_grad():
        graph.f[::-1][:1] = 5.0


def outside_of_the_tape(graph):
    graph.f.detach()[0] = 5.0


@pytest.mark.parametrize(
    "write", [through_the_tape, in_place, of_a_view, outside_of_the_tape], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("retain", [False, True])
def test_a_hook_writes_what_is_still_to_be_read(write, retain):
    graph = Graph(write)
    with pytest.raises(WrittenError, match=r"written in place while the pass was under way"):
        graph.gradient(retain_graph=retain)
    assert graph.x.grad is None


def test_a_recorded_pass_goes_on_behind_the_hook():
    """It undoes what was written before: each part of it begins after the hooks before it."""
    np.testing.assert_allclose(Graph(through_the_tape).gradient(create_graph=True), WANTED)


@pytest.mark.parametrize("create", [False, True])
def test_a_rule_writes_what_is_still_to_be_read(create):
    class Writes(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            through_the_tape(graph)
            return g

    graph = Graph()
    graph.out = Writes.apply(graph.out) * 1.0
    with pytest.raises(WrittenError):
        graph.gradient(create_graph=create)


def test_an_input_is_written():
    graph = Graph()
    w = tg.tensor([2.0, 3.0], requires_grad=True)
    out = w * np.sin(graph.f)

    @tg.no_grad()
    def write(_):
        w[...] = 100.0

    out.register_hook(write)
    with pytest.raises(RuntimeError, match="an input was written in place"):
        np.sum(out * 2.0).backward()
    assert w.grad is None and graph.x.grad is None


def test_an_input_is_written_that_has_its_adjoint_already():
    w = tg.tensor([2.0, 3.0], requires_grad=True)
    y = np.sin(w)
    out = y + np.cos(w * 1.0)  # the adjoint of w begins after this

    @tg.no_grad()
    def write(_):
        w[...] = 100.0

    y.register_hook(write)
    with pytest.raises(RuntimeError, match="written in place"):
        np.sum(out).backward()
    assert w.grad is None


@pytest.mark.parametrize("write", [through_the_tape, outside_of_the_tape])
def test_another_thread_writes(write):
    passed, written = threading.Event(), threading.Event()

    def waits(_):
        passed.set()
        assert written.wait(60)

    graph, errors = Graph(waits), []

    def run():
        try:
            graph.gradient()
        except WrittenError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert passed.wait(60)
    write(graph)
    written.set()
    thread.join(60)
    assert len(errors) == 1 and graph.x.grad is None


def test_writes_of_what_the_pass_does_not_read():
    """Other graphs, before the pass or during it, views of other buffers, what it has made."""
    other = tg.tensor(V, requires_grad=True)
    before = other * 1.0

    def writes(graph):
        with tg.enable_grad():
            before[0] = other[1] * 2.0
            made = graph.f * 2.0
            made[1] = 5.0
            made.detach()[0] = 1.0
            before.detach()[1] = 3.0
        with tg.no_grad():
            other[...] = 1.0

    for _ in range(3):
        graph = Graph(writes)
        np.testing.assert_allclose(graph.gradient(), WANTED, rtol=1e-13)


@pytest.mark.parametrize("room", [0, 1, 2])
def test_the_chunk_is_full_when_the_pass_begins(room):
    graph = Graph(through_the_tape)
    loss = np.sum(graph.out)
    y = graph.x[0]
    while -get_word(layout.STATE_ID) & (layout.ROWS - 1) != room:
        y = y * 1.0
    with pytest.raises(WrittenError):
        loss.backward()


def test_a_result_is_written_after_the_chunk_is_full():
    def writes(graph):
        with tg.enable_grad():
            y = graph.x[0]
            for _ in range(20_000):
                y = y * 1.0
            graph.f[0] = y

    with pytest.raises(WrittenError):
        Graph(writes).gradient()


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_a_hook_of_an_input_writes_all_of_them(first, create):
    """As an optimiser does: those that have no gradient yet get it, too."""
    x, w = (tg.tensor(v, requires_grad=True) for v in (V, [2.0, 3.0]))

    @tg.no_grad()
    def write(_):
        x[...] = 0.0
        w[...] = 0.0

    (x, w)[first].register_post_accumulate_grad_hook(write)
    np.sum(w * np.sin(x)).backward(create_graph=create)
    np.testing.assert_allclose(x.grad.detach().numpy(), [2.0, 3.0] * np.cos(V), rtol=1e-13)
    np.testing.assert_allclose(w.grad.detach().numpy(), np.sin(V), rtol=1e-13)
    assert x.tolist() == w.tolist() == [0.0, 0.0]
