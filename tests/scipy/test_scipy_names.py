"""A walk over SciPy's public names: each differentiates, answers, or refuses by its name."""

import importlib
import inspect
import re
import types

import numpy as np
import pytest
import scipy
from richardson import differences
from scipy_expressions import EXPRESSIONS, REFUSED
from source_rules import ROOT

import tapegrad as tg

MODULES = """
cluster cluster.hierarchy cluster.vq constants differentiate fft integrate interpolate linalg
linalg.interpolative ndimage optimize signal signal.windows sparse sparse.csgraph sparse.linalg
spatial spatial.distance spatial.transform special stats stats.contingency stats.mstats stats.qmc
""".split()
NAMES = [
    f"{module}.{name}"
    for module in MODULES
    for name in getattr(importlib.import_module(f"scipy.{module}"), "__all__", ())
]
PAGE = ROOT / "docs" / "scipy_names.md"
X = np.array([0.3, 0.5, 0.9])


def theirs(name):
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"scipy.{module}"), own)


def stand_in(name):
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"tapegrad.scipy.{module}"), own)


def kind_of(name):
    """Whether a name is a function, a class, a distribution, or nothing that computes."""
    value = theirs(name)
    if isinstance(value, types.ModuleType) or not callable(value):
        return "data"
    if isinstance(value, type):
        return "data" if issubclass(value, (Exception, Warning)) else "class"
    return "distribution" if hasattr(value, "_parse_args") else "function"


KINDS = {name: kind_of(name) for name in NAMES}
#: By identities of functions, all their names, as `stats.gmean` and `stats.mstats.gmean`.
ALIASES: dict[int, list[str]] = {}
for _name in NAMES:
    ALIASES.setdefault(id(theirs(_name)), []).append(_name)


def is_covered(name):
    return any(one in EXPRESSIONS for one in ALIASES[id(theirs(name))])


#: Distributions have tests of their own: `test_scipy_distributions`.
OTHERS = [name for name in NAMES if KINDS[name] in ("function", "class") and not is_covered(name)]


def said():
    """What the page says of each name."""
    found, module, kind = {}, "", ""
    for block in PAGE.read_text(encoding="utf-8").split("\n\n"):
        if block.startswith("## "):
            module = block.removeprefix("## scipy.").strip() if "## scipy." in block else ""
        elif head := re.match(r"\d+ (differentiate|answer|refuse)", block):
            kind = head[1]
        elif module and block.startswith("`"):
            found |= {f"{module}.{name}": kind for name in re.findall(r"`(\w+)`", block)}
    return found


SAID = said()


def numbers_in(result):
    """All arrays of numbers in a result, of complex ones the parts."""
    if isinstance(result, dict):
        result = [*result.values()]
    if isinstance(result, (tuple, list)):
        return [part for one in result for part in numbers_in(one)]
    if result is None or isinstance(result, str):
        return []
    both = (result.real, result.imag) if np.iscomplexobj(result) else (result,)
    return [np.reshape(part, -1) for part in both]


def total(result):
    """A sum of all numbers in a result, each with another weight."""
    parts = enumerate(numbers_in(result))
    return sum(np.sum(one * np.cos(k + 1.0 + np.arange(np.size(one)))) for k, one in parts)


def slopes_of(name, expression, x):
    """The gradient, compared with differences of SciPy's values; the step may cross a jump."""
    plain = lambda x: float(total(expression("scipy", x)))
    f = lambda x: total(expression("tapegrad.scipy", x)) + 0.0 * np.sum(x)
    value, gradient = tg.value_and_grad(f)(x)
    np.testing.assert_allclose(value, plain(x), rtol=1e-9, atol=1e-10)
    apart = np.inf
    for step in (1e-3, 1e-4, 1e-5):
        wanted = differences(plain, x, step)
        size = 1.0 + np.max(np.abs(wanted), initial=0.0)
        apart = min(apart, np.max(np.abs(gradient - wanted), initial=0.0) / size)
        if apart <= 1e-6:
            return gradient
    pytest.fail(f"{name}: a gradient is {apart:.1e} from differences")


def test_the_walk_is_long():
    assert len(NAMES) > 1300 and len(EXPRESSIONS) > 700
    assert sum(map(len, EXPRESSIONS.values())) > 900


def test_every_name_of_the_page_has_what_it_says():
    assert {*SAID.values()} == {"differentiate", "answer", "refuse"}
    there = {name for name in SAID if hasattr_of_scipy(name)}
    without = {name for name in there if SAID[name] != "refuse" and not is_covered(name)}
    assert not without, "listed as differentiates or answers, but without an expression"
    refused = {name for name in EXPRESSIONS if SAID.get(name) == "refuse"}
    assert not refused, "listed as refuses, but with an expression"


def hasattr_of_scipy(name):
    module, _, own = name.rpartition(".")
    return hasattr(importlib.import_module(f"scipy.{module}"), own)


#: What refuses with SciPy 1.15, whose functions write to arrays of plain numbers.
NOT_IN_1_15 = {
    *("stats.skew", "stats.kurtosis"),
    *(
        f"signal.{name}"
        for name in "bessel butter cheby1 cheby2 ellip findfreqs firls iirdesign iirfilter sos2zpk "
        "tf2sos zpk2sos zpk2tf".split()
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.filterwarnings("ignore")
def test_names_that_differentiate_or_answer(name):
    every = EXPRESSIONS[name]
    assert all(x.size for _, x in every), "an expression of nothing"
    version = np.lib.NumpyVersion(scipy.__version__)
    refuses = NOT_IN_1_15 if version < "1.16.0" else {"signal.firls"} if version < "1.17.0" else ()
    if name in refuses:
        with pytest.raises(TypeError, match="would be lost"):
            [slopes_of(name, expression, x) for expression, x in every]
        return
    moves = [bool(np.any(slopes_of(name, expression, x))) for expression, x in every]
    if scipy.__version__.startswith("1.17.") and name in SAID:
        assert SAID[name] == ("differentiate" if any(moves) else "answer")


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore")
def test_other_names_refuse(name):
    """Functions by their names. Classes of SciPy's own hold what they are given, or raise."""
    given = REFUSED.get(name)
    aliases = [one.rpartition(".")[2] for one in ALIASES[id(theirs(name))]]
    called = getattr(theirs(name), "__name__", aliases[0])  # another name in SciPy 1.15
    names = "|".join([*aliases, called])
    if given is not None:
        with pytest.raises(TypeError, match=rf"\b({names})\b"):
            tg.grad(lambda x: total(given(stand_in(name), x)))(np.array([0.3, 0.5, 0.9, 0.7]))
    elif KINDS[name] == "class":
        assert_holds_or_raises(name)
    else:
        count = getattr(theirs(name), "nin", 1)
        with pytest.raises(tg.DerivativeLost, match=rf"\bscipy\.([\w.]+\.)?({names})\(\)"):
            tg.grad(lambda x: np.sum(stand_in(name)(*[x] * count)))(X)


def assert_holds_or_raises(name):
    x = tg.tensor(X, requires_grad=True)
    try:
        parameters = inspect.signature(theirs(name)).parameters.values()
        count = sum(one.default is one.empty and one.kind in (0, 1) for one in parameters)
        made = stand_in(name)(*[x] * max(count, 1))
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return
    held = made.values() if isinstance(made, dict) else vars(made).values()
    assert any(isinstance(one, tg.Tensor) for one in held), [*held]
