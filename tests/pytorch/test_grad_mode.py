"""Modes as PyTorch has them: inference_mode, generators, decorators, threads."""

import threading

import pytest
from torch_side import both, leaf

import tapegrad as tg


def state(lib):
    """What the mode is, and whether an operation is recorded."""
    x = leaf(lib, [1.0, 2.0])
    found = {(x * 2).requires_grad, (x[0] * x[1]).requires_grad, (x.sum() + 1).requires_grad}
    (one,) = found
    return lib.is_grad_enabled(), lib.is_inference_mode_enabled(), one


def test_contexts():
    def script(lib):
        seen = [state(lib)]
        with lib.no_grad():
            seen.append(state(lib))
            with lib.enable_grad():
                seen.append(state(lib))
                with lib.set_grad_enabled(False):
                    seen.append(state(lib))
            with lib.set_grad_enabled(True):
                seen.append(state(lib))
        with lib.inference_mode():
            seen.append(state(lib))
            with lib.inference_mode(False):
                seen.append(state(lib))
            seen.append(state(lib))
        with lib.inference_mode(False):
            seen.append(state(lib))
        return seen + [state(lib)]

    both(script)


def test_recording_stays_off_inside_inference_mode():
    with tg.inference_mode(), tg.enable_grad(), tg.set_grad_enabled(True):
        assert state(tg) == (False, True, False)
    assert state(tg) == (True, False, True)


def test_decorators():
    def script(lib):
        @lib.no_grad()
        def called():
            return state(lib)

        @lib.no_grad
        def bare():
            return state(lib)

        @lib.inference_mode()
        def inference():
            return state(lib)

        @lib.inference_mode
        def bare_inference():
            return state(lib)

        @lib.set_grad_enabled(False)
        def switched():
            return state(lib)

        @lib.enable_grad()
        def enabled(depth=2):
            return [state(lib)] + (enabled(depth - 1) if depth else [])

        seen = [f() for f in (called, bare, inference, bare_inference, switched, enabled)]
        with lib.no_grad():
            seen.append(enabled())
        return seen, state(lib), called.__name__

    both(script)


@pytest.mark.filterwarnings("ignore:the .type, exc, tb. signature:DeprecationWarning")  # PyTorch
def test_generators():
    def script(lib):
        seen = []

        @lib.no_grad()
        def steps():
            try:
                seen.append(state(lib))
                got = yield 1
                seen.append((got, state(lib)))
                try:
                    yield 2
                except KeyError:
                    seen.append(("thrown", state(lib)))
                yield 3
            finally:
                seen.append(("end", state(lib)))

        made = steps()
        values = [next(made)]
        seen.append(state(lib))
        values.append(made.send("sent"))
        seen.append(state(lib))
        values.append(made.throw(KeyError()))
        made.close()
        return values, seen, state(lib)

    both(script)


def test_what_a_generator_returns_and_raises():
    @tg.no_grad()
    def steps(error=None):
        yield
        if error:
            raise error
        return 5

    made = steps()
    next(made)
    with pytest.raises(StopIteration) as end:
        next(made)
    assert end.value.value == 5
    made = steps(KeyError("mine"))
    next(made)
    with pytest.raises(KeyError):
        next(made)
    assert tg.is_grad_enabled()


def test_set_grad_enabled_as_a_function():
    def script(lib):
        lib.set_grad_enabled(False)
        seen = [state(lib)]
        lib.set_grad_enabled(True)
        return seen + [state(lib)]

    both(script)


def test_a_context_used_again():
    mode = tg.inference_mode()
    for _ in range(2):
        with mode:
            assert state(tg) == (False, True, False)
    assert state(tg) == (True, False, True)


def test_inference_mode_belongs_to_its_thread():
    seen, inside, done = {}, threading.Event(), threading.Event()

    def other():
        with tg.inference_mode():
            inside.set()
            done.wait(60)
            seen["other"] = state(tg)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(60)
    seen["here"] = state(tg)
    done.set()
    thread.join()
    assert seen == {"here": (True, False, True), "other": (False, True, False)}


def test_modes_end_with_an_exception():
    for mode in (tg.no_grad(), tg.inference_mode(), tg.set_grad_enabled(True)):
        with pytest.raises(KeyError), mode:
            raise KeyError
        assert state(tg) == (True, False, True)
