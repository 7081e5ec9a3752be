"""Anomaly mode: the operation and the user's line behind an error or a NaN in the reverse sweep."""

import contextlib
import inspect
import re
import threading
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import layout
from tapegrad._core.tape import native_types, store
from tapegrad._core.tape.sweeps import Sweep
from tapegrad._core.tensor import runtime as rt

detect = tg.autograd.detect_anomaly


def root(x):
    return np.sqrt(x)  # the line


LINE = inspect.getsourcelines(root)[1] + 1
NAN = r"Function 'SqrtBackward0' returned nan values in its 0th output"


@contextlib.contextmanager
def reported(name, error=RuntimeError, match=NAN):
    """An error with PyTorch's warning before it; gives the list of the warning's texts."""
    texts = []
    with warnings.catch_warnings(record=True) as caught, pytest.raises(error, match=match) as info:
        warnings.simplefilter("always")
        yield texts
    texts += [str(w.message) for w in caught] + [str(info.value)]
    assert len(caught) == 1
    assert texts[0].startswith(f"Error detected in {name}.")


def test_a_nan_names_the_operation_and_the_line():
    x = tg.tensor([-1.0, 4.0], requires_grad=True)
    with reported("SqrtBackward0") as texts, detect():
        (root(x * 3.0) + 1.0).sum().backward()
    warning, error = texts
    assert f'{__file__}", line {LINE}, in root\n    return np.sqrt(x)  # the line' in warning
    assert "in test_a_nan_names_the_operation_and_the_line\n    (root(x * 3.0)" in warning
    assert f"It was recorded in root, {__file__}:{LINE}" in error
    assert warning.index("in test_a_nan") < warning.index("in root"), "outermost first"


def test_the_words_are_those_of_pytorch():
    torch = pytest.importorskip("torch")

    def texts(library, x):
        with warnings.catch_warnings(record=True) as caught, pytest.raises(RuntimeError) as info:
            warnings.simplefilter("always")
            with library.autograd.detect_anomaly():
                library.sqrt(x).sum().backward()
        frames = re.findall(r"line (\d+), in texts", str(caught[-1].message))
        return str(caught[-1].message).split("\n")[0].rstrip(), frames, str(info.value)

    ours = texts(tg, tg.tensor([-1.0], requires_grad=True))
    theirs = texts(torch, torch.tensor([-1.0], dtype=torch.float64, requires_grad=True))
    assert ours[:2] == theirs[:2]
    assert theirs[2].rstrip(".") in ours[2]


def test_a_nan_in_a_scalar_row_and_in_a_cell():
    x = tg.tensor([-1.0, 2.0], requires_grad=True)
    with reported("SqrtBackward0") as texts, detect():
        cell = x[0] * x[1]
        (root(cell) + cell).backward()
    assert f":{LINE}" in texts[1]


def test_the_second_operand_is_the_first_output():
    x, y = (tg.tensor(v, requires_grad=True) for v in (1.0, np.inf))
    match = "'MulBackward0' returned nan values in its 1th output"
    seed = tg.tensor([np.nan])
    with reported("MulBackward0", match="in its 0th output"), detect():
        (x * tg.tensor([1.0])).backward(seed)
    with reported("MulBackward0", match=match), detect():
        (tg.stack([x - 1.0]) * (y * tg.stack([y]))).backward(tg.tensor([np.inf]))


def test_the_tape_may_be_older_than_the_mode():
    x = tg.tensor([-1.0], requires_grad=True)
    y = root(x)
    with reported("SqrtBackward0") as texts, detect():
        y.backward()
    assert "No forward pass information available. Enable detect anomaly" in texts[0]
    assert "recorded in" not in texts[1]


def test_forward_and_backward_in_modes_of_their_own():
    x = tg.tensor([-1.0], requires_grad=True)
    with detect():
        y = root(x)
    with reported("SqrtBackward0") as texts, detect():
        y.backward()
    assert f":{LINE}" in texts[1]


def test_without_check_nan_a_nan_passes():
    x = tg.tensor([-1.0], requires_grad=True)
    with detect(check_nan=False):
        root(x).backward()
    assert np.isnan(x.grad.numpy()).all()


def test_a_written_input_names_the_row_that_had_read_it():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    with detect():
        y = root(x).sum() + (x * x).sum()
    with tg.no_grad():
        x[0] = 3.0
    with reported("MulBackward0", match="written in place") as texts, detect():
        y.backward()
    assert "(x * x).sum()" in texts[0]


def test_rows_used_up_name_themselves():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    with detect():
        y = root(x).sum()
        y.backward()
    with reported("SumBackward0", match="retain_graph=True"), detect():
        y.backward()


def test_rows_used_up_whose_lines_are_not_known():
    y = root(tg.tensor([1.0, 2.0], requires_grad=True)).sum()
    y.backward()
    with (
        pytest.warns(UserWarning, match="SumBackward0. No forward pass information available"),
        pytest.raises(RuntimeError, match="retain_graph=True"),
        detect(),
    ):
        y.backward()


def test_an_error_outside_the_mode_says_how_to_find_the_line():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    with tg.no_grad():
        x[0] = 3.0
    with pytest.raises(RuntimeError, match=r"detect_anomaly\(\) around all of it finds the line$"):
        y.backward()


def f(x):
    """Reads, in-place writes, products, sums, both kinds of rows."""
    y = x * 2.0
    y[1:] = y[:-1] * x[0]
    y[0] += x[2] * 3.0
    return np.sum(np.sin(y) @ np.outer(y, y)) + tg.max(y)


def test_gradients_are_the_same_and_so_is_the_tape_afterwards():
    x = np.array([0.3, -0.4, 0.5, 0.7])
    expected = tg.grad(f)(x)
    with detect():
        assert np.array_equal(tg.grad(f)(x), expected)
        jacobian = tg.jacobian(lambda x: np.sin(x) * x[0])(x)
    assert np.array_equal(jacobian, tg.jacobian(lambda x: np.sin(x) * x[0])(x))


def test_what_is_not_reached_keeps_no_gradient():
    x, y = (tg.tensor([1.0], requires_grad=True) for _ in range(2))
    with detect():
        z = y * 2.0
        (x * 3.0).backward()
    assert y.grad is None and z is not None


def is_off():
    return (
        native_types.get_word(layout.STATE_SPECIAL) == 0
        and type(rt.row) is type(len)
        and not hasattr(Sweep.run, "__wrapped__")
    )


def test_nothing_is_left_when_it_is_off():
    tg.tensor(1.0)
    assert is_off()
    with detect(), tg.autograd.set_detect_anomaly(False):
        assert is_off()
    with tg.autograd.set_detect_anomaly(True):
        assert not is_off()
        with detect(check_nan=False):
            assert not is_off()
    assert is_off()


def test_the_switch_works_at_once_and_as_decorator():
    x = tg.tensor([-1.0], requires_grad=True)
    tg.autograd.set_detect_anomaly(True)
    try:
        with reported("SqrtBackward0"):
            root(x).backward()
    finally:
        tg.autograd.set_detect_anomaly(False)
    assert is_off()

    @detect()
    def step():
        root(x).backward()

    for _ in range(2):
        with reported("SqrtBackward0"):
            step()
    assert is_off()


def test_lines_of_other_threads_are_their_own():
    made = {}

    def work(k):
        x = tg.tensor([-1.0], requires_grad=True)
        for _ in range(50):
            y = root(x) if k else np.log(x)
        made[k] = y

    with detect():
        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with reported("SqrtBackward0") as texts:
            (made[1] * 1.0).backward()
    assert f":{LINE}" in texts[1]


def test_lines_of_rows_that_are_gone_are_forgotten():
    """Numbers are used again: a row recorded later, outside the mode, has no line."""
    x = tg.tensor(-1.0, requires_grad=True)
    with detect():
        numbers = {(x * 1.0)._id for _ in range(3 * layout.ROWS)}
    with store.lock:
        store.look()  # numbers that were freed last are used first
    while (x * 1.0)._id not in numbers:
        pass
    y = root(x)
    with reported("SqrtBackward0") as texts, detect():
        y.backward()
    assert "No forward pass" in texts[0]
