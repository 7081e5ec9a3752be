"""Recording switched off and on: no_grad, enable_grad, set_grad_enabled."""

import threading

import numpy as np
import pytest

import tapegrad as tg


def leaf(value=(1.0, 2.0, 3.0)):
    return tg.tensor(value, requires_grad=True)


def recorded():
    """Whether scalar, array, in-place and NumPy operations are recorded right now: all alike."""
    x = leaf()
    found = {(x * 2.0).requires_grad, (x[0] * 2.0).requires_grad, np.sin(x).requires_grad}
    found |= {x[1:].sum().requires_grad, (-x).requires_grad, x[[0, 1]].requires_grad}
    (one,) = found
    assert one == tg.is_grad_enabled()
    return one


def test_modes_nest():
    assert recorded()
    with tg.no_grad():
        assert not recorded()
        with tg.enable_grad():
            assert recorded()
            with tg.no_grad():
                assert not recorded()
            assert recorded()
        assert not recorded()
    assert recorded()


def test_modes_end_with_an_exception():
    with pytest.raises(KeyError), tg.no_grad():
        raise KeyError
    assert recorded()


def test_modes_as_decorators():
    @tg.no_grad
    def bare():
        return recorded()

    @tg.no_grad()
    def called():
        return recorded()

    @tg.enable_grad()
    def enabled():
        return recorded()

    assert not bare() and not called() and enabled() and recorded()
    with tg.no_grad():
        assert enabled() and not bare()
    assert bare.__name__ == "bare"


def test_a_mode_used_again_and_by_recursion():
    mode = tg.no_grad()
    with mode, mode:
        assert not recorded()
    assert recorded()

    @tg.no_grad()
    def down(n):
        return recorded() if n == 0 else down(n - 1)

    assert not down(5) and recorded()


def test_set_grad_enabled():
    tg.set_grad_enabled(False)
    assert not recorded()
    tg.set_grad_enabled(True)
    assert recorded()
    with tg.set_grad_enabled(False):
        assert not recorded()
        with tg.set_grad_enabled(True):
            assert recorded()
        assert not recorded()
    assert recorded()


def test_modes_belong_to_their_thread():
    inside, seen = threading.Barrier(2), {}

    def other():
        with tg.no_grad():
            inside.wait()
            inside.wait()
            seen["other"] = recorded()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    seen["here"] = recorded()
    inside.wait()
    thread.join()
    assert seen == {"here": True, "other": False} and recorded()


def test_transforms_record_under_no_grad():
    with tg.no_grad():
        assert tg.grad(np.sin)(0.0) == 1.0
        assert tg.jacobian(np.sin)(np.zeros(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
        assert not recorded()


def test_no_grad_leaves_earlier_rows_alone():
    x = leaf()
    y = x * x
    with tg.no_grad():
        z = y * 2.0
    assert not z.requires_grad
    (y * z).sum().backward()
    assert x.grad.tolist() == [4.0, 32.0, 108.0]
