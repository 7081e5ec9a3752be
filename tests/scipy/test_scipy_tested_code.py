"""Functions of SciPy are copied if their text was tested; what there is one of is made once."""

import importlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy

import tapegrad as tg
from tapegrad.scipy import _copied_code, stats
from tapegrad.scipy import _tested_code as code
from tapegrad.scipy._copied_code import COPIED, copy_of
from tapegrad.scipy._tested_code import RELEASED

SERIES = ".".join(scipy.__version__.split(".")[:2])
X = np.array([0.3, 0.9, 0.5, 1.4])
PLACE = "stats/_stats_py.py"


@pytest.fixture
def other_version(monkeypatch):
    """Another version of the same series, as a patch release is."""
    monkeypatch.setattr(scipy, "__version__", f"{SERIES}.99")


def test_versions():
    versions = [*code.tested()]
    assert {"1.15", "1.16", "1.17", "1.18"} == {one.rpartition(".")[0] for one in versions}
    for one in versions:
        assert code._known(one) is None
    assert code._known("1.16.0") == code.tested()["1.16.3"]
    assert (
        code._known("1.15.2")
        == code.tested()["1.15.3"] | code.tested()["1.15.0"] | code.tested()["1.15.0"]
    )
    assert code._known("1.99.0.dev0") == code.tested()[max(versions)]
    assert code.FILE.stat().st_size < 65_000


@pytest.mark.skipif(scipy.__version__ not in code.tested(), reason="needs a tested version")
def test_with_a_tested_version_no_text_is_read(monkeypatch):
    monkeypatch.setattr(code, "functions_in", lambda path: pytest.fail("a text is read"))
    f = lambda x: stats.gzscore(x)[0] + stats.norm.logpdf(x[1])
    assert np.all(np.isfinite(tg.grad(f)(X)))


@pytest.mark.usefixtures("other_version")
def test_the_texts_of_all_released_functions_are_known():
    """Of the installed version, whatever it is: such a run is how a patch release is looked at."""
    for name in [*COPIED, *RELEASED]:
        module, _, own = name.rpartition(".")
        function = getattr(importlib.import_module(f"scipy.{module}"), own, None)
        while function is not None:
            code.check_text(function, with_called=name in RELEASED)
            function = getattr(function, "__wrapped__", None)


EDITS = {
    "as it is": ("", "", True),
    "a comment": ("    x = np.asarray(x)", "    # another\n    x = np.asarray(x)", True),
    "a docstring": ('"""Twice', '"""Two times', True),
    "a number": ("2.0", "2.5", False),
    "a default": ("n=1", "n=2", False),
    "a decorator": ("@same", "@other", False),
    "the file is not there": None,
}
TEXT = '''
def same(f):
    return f
other = same

@same
def twice(x, n=1):
    """Twice x."""
    x = np.asarray(x)
    return (lambda y: 2.0 * y)(x) * n
'''


@pytest.mark.usefixtures("other_version")
@pytest.mark.parametrize("edit", EDITS)
def test_a_function_of_another_text_is_refused(edit, tmp_path, monkeypatch):
    path = tmp_path / PLACE
    path.parent.mkdir()
    monkeypatch.setattr(code, "_root", lambda: tmp_path)
    path.write_text(TEXT)
    known = [code.digest(path, one) for every in code.functions_in(path).values() for one in every]
    monkeypatch.setattr(code, "_known", lambda version: frozenset(known))
    code.functions_in.cache_clear()

    old, new, is_kept = EDITS[edit] or ("", "", False)
    text = TEXT.replace(old, new) if old else TEXT
    assert (text == TEXT) == (not old)
    path.write_text(text)
    space = {"np": np, "__name__": "scipy.stats._stats_py", "__package__": "scipy.stats"}
    exec(compile(text, str(path), "exec"), space)
    if EDITS[edit] is None:
        path.unlink()
    f = lambda x: np.sum(copy_of(space["twice"])(x) ** 2)
    if is_kept:
        np.testing.assert_allclose(tg.grad(f)(X), 8.0 * X)
        return
    message = rf"code of scipy\.stats\._stats_py\.twice\(\) in SciPy {SERIES}\.99 is not that of"
    with pytest.raises(tg.DerivativeLost, match=message):
        tg.grad(f)(X)


CHANGED = """
import numpy as np, scipy, tapegrad as tg
from tapegrad.scipy import _tested_code as code, signal, stats
scipy.__version__ = "{series}.99"
digest, changed = code.digest, {{"gmean", "_norm_logpdf", "bilinear_zpk", "kaiser_beta", "_swap"}}
code.digest = lambda path, node: "" if getattr(node, "name", "") in changed else digest(path, node)
x = np.array([0.3, 0.9, 0.5, 1.4])
for name, f in {{
    "gmean": lambda x: stats.gmean(x),
    "hmean": lambda x: stats.hmean(x),
    "logpdf": lambda x: np.sum(stats.norm.logpdf(x)),
    "gamma": lambda x: np.sum(stats.gamma.logpdf(x, 2.0)),
    "kaiser_beta": lambda x: signal.kaiser_beta(x[0] + 60.0),
    "kaiser_atten": lambda x: signal.kaiser_atten(5, x[0]),
}}.items():
    try:
        print(name, "has one" if np.any(tg.grad(f)(x)) else "has none")
    except tg.DerivativeLost as error:
        is_right = "is not that of a version" in str(error) and "{series}.99" in str(error)
        print(name, "is refused" if is_right else error)
"""


def run(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def test_what_calls_a_changed_function_is_refused_and_nothing_else():
    found = dict(line.split(" ", 1) for line in run(CHANGED.format(series=SERIES)).splitlines())
    assert found == {
        **dict.fromkeys(("gmean", "logpdf", "kaiser_beta"), "is refused"),
        **dict.fromkeys(("hmean", "gamma", "kaiser_atten"), "has one"),
    }


THREADS = """
import sys, threading
import numpy as np, scipy.signal, scipy.stats
import tapegrad as tg
from tapegrad.scipy import signal, stats

sys.setswitchinterval(1e-6)
x, start, found = np.array([0.4, 0.9]), threading.Barrier(8), []

def f(x):
    out = stats.multivariate_normal.logpdf(x, np.zeros(2), np.eye(2) * x[0])
    out += stats.gamma.logpdf(x, 2.0 + x[1]).sum() + stats.gmean(x) * stats.nbinom.cdf(3, 4, x[0])
    system = signal.TransferFunction([x[0], 1.0], [1.0, x[1], 2.0])
    out += stats.Normal(mu=x[0], sigma=x[1]).logpdf(0.3)
    return out + np.abs(system.freqresp([0.7])[1][0])

def first():
    start.wait()
    try:
        kinds = type(stats.multivariate_normal), type(signal.lti([1.0], [1.0, 2.0]))
        found.append((tg.grad(f)(x).tolist(), [id(kind) for kind in kinds]))
    except BaseException as error:
        found.append(repr(error))

threads = [threading.Thread(target=first) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
again = tg.grad(f)(x).tolist()
for one in found:
    assert one == found[0], (one, found[0])
assert found[0][0] == again, (found[0], again)
print(len(found))
"""


def test_threads_that_use_a_distribution_first_at_once():
    assert run(THREADS) == "8\n"


def test_threads_get_one_class(monkeypatch):
    class Theirs:
        def first(self):
            return 1.0

    def slowly(value):
        time.sleep(0.05)
        return member(value)

    member = _copied_code._member
    monkeypatch.setattr(_copied_code, "_member", slowly)
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(_copied_code.copied_class, [Theirs] * 4)]
    assert [one is found[0] for one in found] == [True] * 4
    assert found[0]().first() == 1.0


def test_threads_get_one_copy(monkeypatch):
    def slowly(original, ours):
        time.sleep(0.05)
        pair(original, ours)

    pair = _copied_code.pair
    monkeypatch.setattr(_copied_code, "pair", slowly)
    exec(TEXT, space := {"np": np})
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(_copied_code._mark, [space["twice"]] * 4)]
    assert [one is found[0] for one in found] == [True] * 4
