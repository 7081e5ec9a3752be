"""What is shown of computations that take long, where, and that nothing is shown elsewhere."""

import io
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.codegen import progress
from tapegrad._core.config import Config


class Terminal(io.StringIO):
    """A terminal, and whether something has been written to it."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        super().write(text)
        self.written.set()


@pytest.fixture
def terminal(monkeypatch):
    """Progress is shown at once, in a terminal, without tqdm."""
    found = Terminal()
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=found))
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "_TICK", 0.001)
    monkeypatch.setattr(progress, "_said", set())
    monkeypatch.setattr(tg.config, "progress", None)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    return found


class Bar:
    """What tqdm has of a bar."""

    made: list = []

    def __init__(self, total, desc, file, leave, smoothing):
        self.total, self.desc, self.n, self.is_open, self.start_t = total, desc, 0, True, 0.0
        self.made.append(self)

    def update(self, count):
        self.n += count

    def close(self):
        self.is_open = False


@pytest.fixture
def bars(terminal, monkeypatch):
    monkeypatch.setattr(Bar, "made", [])
    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    return Bar.made


def until(condition):
    """Wait for what another thread does."""
    tick = threading.Event()
    for _ in range(5_000):
        if condition():
            return
        tick.wait(0.001)
    raise AssertionError("it has not happened in a minute")


def test_one_line_without_tqdm(terminal):
    for _ in range(2):
        with progress.Progress("counting sheep", 3) as shown:
            assert terminal.written.wait(10.0)
            shown.advance()
    assert terminal.getvalue() == "tapegrad: counting sheep\n"


def test_a_bar_of_tqdm(bars):
    with progress.Progress("counting sheep", 3) as shown:
        shown.advance(2)
        until(lambda: bars and bars[0].n == 2)
        with progress.Progress("each leg", 4) as inner:  # the outer one is shown
            inner.advance()
            shown.advance()
            until(lambda: bars[0].n == 3)
    assert [(bar.desc, bar.total, bar.n, bar.is_open) for bar in bars] == [
        ("counting sheep", 3, 3, False)
    ]
    with pytest.raises(ZeroDivisionError), progress.Progress("counting goats", 3):
        until(lambda: len(bars) == 2)
        raise ZeroDivisionError
    assert not bars[1].is_open and progress._under_way == []


@pytest.mark.parametrize("how", ["a pipe", "off", "soon", "closed"])
def test_nothing_is_shown(terminal, monkeypatch, how):
    if how == "a pipe":
        terminal.isatty = lambda: False
    elif how == "off":
        monkeypatch.setattr(tg.config, "progress", False)
    elif how == "soon":
        monkeypatch.setattr(progress, "PATIENCE", 600.0)
    elif how == "closed":
        monkeypatch.setattr(progress.sys, "stderr", None)
    with progress.Progress("counting sheep", 3):
        assert bool(progress._under_way) == (how == "soon")
        if how == "soon":
            terminal.written.wait(0.05)
    assert terminal.getvalue() == "" and progress._under_way == []


def test_in_a_pipe_if_it_is_asked_for(terminal, monkeypatch):
    terminal.isatty = lambda: False
    monkeypatch.setattr(tg.config, "progress", True)
    with progress.Progress("counting sheep", 3):
        assert terminal.written.wait(10.0)


def test_what_takes_long_tells(bars, monkeypatch):
    """Rows, partitions, checks; a program that is made is a line."""
    shown = []

    leave = progress.Progress.__exit__

    def watched(self, *given):
        shown.append((self.what, self.total, self.done))
        leave(self, *given)

    monkeypatch.setattr(progress.Progress, "__exit__", watched)
    f = tg.compile(lambda x: np.sum(x * x))
    f.map(np.ones((130, 2)))
    assert ("evaluating 130 rows", 130, 130) in shown
    assert any(one.startswith("making a program of <lambda>, of ") for one, *_ in shown)
    with ThreadPoolExecutor(2) as pool:
        tg.compile(lambda w, x: np.sum(w * x)).sum(np.ones(2), [np.ones(2)] * 5, over=pool)
    assert shown[-1] == ("evaluating 5 partitions", 5, 5)
    tg.check_grads(lambda x: np.sum(x * x), np.ones(2))
    assert shown[-1] == ("checking derivatives", 6, 6)
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    tg.autograd.gradcheck(lambda x: x * x, (x,), fast_mode=False)
    assert ("differences by input 0", 3, 3) in shown


def test_the_setting(monkeypatch):
    assert tg.config.progress is None
    with pytest.raises(TypeError, match="progress is True, False or None, not 1"):
        tg.config.progress = 1
    for given, wanted in (("1", True), ("0", False), ("", None)):
        monkeypatch.setenv("TAPEGRAD_PROGRESS", given)
        assert Config().progress is wanted
