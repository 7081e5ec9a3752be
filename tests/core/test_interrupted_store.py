"""Interrupts, or finalisers that record, while chunks are opened and let go: all stays whole."""

import itertools
import sys
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape import native_types, store

FILES = {store.__file__, native_types.__file__}
V = np.array([0.5, -1.0, 2.0])


def interrupted(call, at: int) -> bool:
    """Whether `call` came to the `at`-th place where Python sees to signals: it is ended there.

    Such places are the beginnings of functions and the returns from calls.
    """
    places = itertools.count()

    def see(frame, event, _):
        if event in ("call", "c_return") and frame.f_code.co_filename in FILES:
            if next(places) == at:
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    return False


def check_headers():
    """No chunk is more than full, and rows are written to the newest one."""
    store.seal()
    for slot in store.order:
        assert 0 <= store.word(slot, layout.USED_ROWS) <= layout.ROWS
        assert 0 <= store.word(slot, layout.USED_REFERENCES) <= layout.REFERENCES
    assert native_types.get_word(layout.STATE_CHUNK) == store.table[store.order[-1]]


def check_gradients():
    x = tg.tensor(V, requires_grad=True)
    y = np.exp(x) * x
    y.register_hook(lambda g: g * 2.0)  # makes `grad` mark the rows between
    (found,) = tg.autograd.grad(np.sum(y), [x])
    np.testing.assert_allclose(found.numpy(), 2 * np.exp(V) * (1 + V), rtol=1e-14)
    np.testing.assert_allclose(tg.grad(tg.grad(lambda t: t * t * t))(1.5), 9.0, rtol=1e-14)


def open_chunk():
    store.new_chunk()


def look():
    with store.lock:
        store.seal()
        store.look()


def open_and_look():
    with store.lock:
        store._limits["chunks"] = 0
        store.new_chunk()


@pytest.mark.parametrize("keeps", [False, True])  # inputs go where no input near them is alive
@pytest.mark.parametrize("call", [open_chunk, look])
def test_an_interrupt_leaves_the_store_whole(call, keeps):
    for at in range(80):
        for _ in range(3):
            tg.tensor(V, requires_grad=True) * 3.0
        open_chunk()  # what is before can go
        x = tg.tensor(V, requires_grad=True)
        kept = np.sum(x * x)
        if not keeps:
            del x, kept
        open_chunk()
        found = interrupted(call, at)
        check_headers()
        check_gradients()
        if keeps:
            kept.backward()
            np.testing.assert_array_equal(x.grad.numpy(), 2 * V)
            del x, kept
        look()  # as if nothing had been
        if not found:
            break


def test_finalisers_of_what_is_let_go_record():
    made = []

    def record():
        store._limits["chunks"] = 0  # a look as soon as there is no room
        x = tg.tensor(V, requires_grad=True)
        made.append((x, np.sum(x * x)))

    for _ in range(6):
        y = np.sin(tg.tensor(V, requires_grad=True))
        weakref.finalize(y._array, record)
        store._limits["chunks"] = store.FEWEST_CHUNKS
        open_chunk()
    del y
    open_and_look()
    assert made
    look()
    check_headers()
    for x, result in made:
        result.backward()
        np.testing.assert_array_equal(x.grad.numpy(), 2 * V)
    check_gradients()
