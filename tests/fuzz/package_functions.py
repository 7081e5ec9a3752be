"""Functions of installed packages, as their docstrings call them, differentiated.

usage: python tests/fuzz/package_functions.py [PACKAGE …] [--match TEXT] [--eager] [--refused]

Each function of the packages that are installed, among those of `PACKAGES`, is called by its name
with the arguments of an example in its docstring, and differentiated by every float among them:
eagerly and compiled, four times, at the example's values and nearby. Central differences of the
plain function are the reference. The last line counts those that are right, those that are refused
with an error, and those that are wrong; "edge" are those that are right nearby, where the values of
the example are on an edge of a branch. The exit status is 1 if one is wrong, or less than 95 % are
right.
"""

import argparse
import ast
import collections
import contextlib
import copy
import doctest
import importlib
import io
import os
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
import types
import warnings

import numpy as np

import tapegrad as tg

PACKAGES = (
    *("fluids", "ht", "chemicals", "numpy_financial", "pymeeus", "iapws", "psychrolib"),
    *("pymap3d", "pvlib"),
)
#: Calls of packages whose docstrings have none.
CALLS = {
    "psychrolib": """
        GetTWetBulbFromRelHum(25.0, 0.5, 101325.0), GetHumRatioFromRelHum(25.0, 0.5, 101325.0),
        GetRelHumFromTDewPoint(25.0, 15.0), GetTDewPointFromRelHum(25.0, 0.5),
        GetSatVapPres(25.0), GetVapPresFromRelHum(25.0, 0.4), GetMoistAirEnthalpy(30.0, 0.02),
        GetMoistAirDensity(30.0, 0.02, 95461.0), GetMoistAirVolume(30.0, 0.02, 95461.0),
        GetTWetBulbFromHumRatio(30.0, 0.018, 95461.0),
        GetHumRatioFromTWetBulb(30.0, 25.0, 95461.0), GetStandardAtmPressure(1000.0),
        GetStandardAtmTemperature(1000.0), GetDryAirEnthalpy(25.0),
        GetDegreeOfSaturation(25.0, 0.01, 101325.0), GetSatHumRatio(25.0, 101325.0),
        GetSatAirEnthalpy(25.0, 101325.0), GetVaporPressureDeficit(25.0, 0.01, 101325.0),
        GetSpecificHumFromHumRatio(0.01), GetSeaLevelPressure(101226.5, 105.0, 17.0)
        """,
    "pymap3d": """
        geodetic2ecef(42.0, -82.0, 200.0), ecef2geodetic(660675.0, -4700948.0, 4245737.0),
        geodetic2aer(42.0, -82.0, 1000.0, 41.9, -81.9, 200.0), aer2enu(33.0, 70.0, 1000.0),
        enu2aer(186.3, 286.8, 939.7), aer2ecef(33.0, 70.0, 1000.0, 42.0, -82.0, 200.0),
        ecef2enu(660930.0, -4701424.0, 4246579.0, 42.0, -82.0, 200.0),
        geodetic2enu(42.0, -82.0, 1000.0, 41.9, -81.9, 200.0),
        enu2geodetic(186.3, 286.8, 939.7, 42.0, -82.0, 200.0),
        geodetic2ned(42.0, -82.0, 1000.0, 41.9, -81.9, 200.0)
        """,
    "pvlib": """
        irradiance.beam_component(20.0, 180.0, 40.0, 170.0, 800.0),
        irradiance.aoi(20.0, 180.0, 40.0, 170.0), irradiance.isotropic(20.0, 100.0),
        irradiance.klucher(20.0, 180.0, 100.0, 600.0, 40.0, 170.0),
        irradiance.haydavies(20.0, 180.0, 100.0, 600.0, 1360.0, 40.0, 170.0),
        irradiance.reindl(20.0, 180.0, 100.0, 600.0, 500.0, 1360.0, 40.0, 170.0),
        irradiance.perez(20.0, 180.0, 100.0, 600.0, 1360.0, 40.0, 170.0, 1.3),
        irradiance.get_ground_diffuse(20.0, 500.0, 0.25),
        irradiance.clearness_index(500.0, 40.0, 1367.0), atmosphere.pres2alt(90000.0),
        atmosphere.alt2pres(500.0), atmosphere.gueymard94_pw(20.0, 60.0),
        atmosphere.get_relative_airmass(40.0), atmosphere.get_absolute_airmass(1.3, 99000.0),
        temperature.sapm_cell(800.0, 20.0, 3.0, -3.47, -0.0594, 3.0),
        temperature.pvsyst_cell(800.0, 20.0, 3.0), temperature.faiman(800.0, 20.0, 3.0),
        temperature.ross(800.0, 20.0, 45.0), iam.ashrae(40.0, 0.05),
        iam.physical(40.0, 1.5, 4.0, 0.002), iam.martin_ruiz(40.0, 0.16),
        solarposition.declination_spencer71(80.0),
        pvsystem.calcparams_desoto(800.0, 40.0, 0.0028, 1.5, 6.0, 5e-10, 300.0, 0.3),
        pvsystem.pvwatts_dc(800.0, 40.0, 100.0, -0.003), inverter.pvwatts(90.0, 100.0, 0.96),
        pvsystem.singlediode(6.0, 5e-10, 0.3, 300.0, 1.5)
        """,
}
#: What is to be called before.
_FIRST = {"psychrolib": "SetUnitSystem(SI)"}
#: Functions whose derivative is not to be had in double precision, by name.
_ILL = ("Rachford_Rice_solution_binary_dd",)
#: Modules that are no part of what users call: tests, plots, versions for other libraries.
_SKIPPED = ("test", "plot", "numba", "vectorized", "units", "jax", "example", "benchmark", "_")
_SECONDS = 10


class Call:
    """A call of a function in an example of its docstring."""

    def __init__(self, module: types.ModuleType, name: str, args: tuple, kwargs: dict):
        self.name = f"{module.__name__}.{name}"
        self._function = eval(f"lambda *a, **k: _module.{name}(*a, **k)", {"_module": module})
        self._tree = [*args, kwargs]
        #: The floats and arrays of floats among the arguments.
        self.values = [*_floats(self._tree)]

    def __call__(self, *values):
        """A weighted sum of the floats in the result, as a function of those among arguments."""
        *args, kwargs = _with(self._tree, iter(values))
        return _sum_of(self._function(*args, **kwargs))

    def nearby(self) -> "Call":
        """The same with other digits."""
        other = copy.copy(self)
        other.values = [one * (1 + 1e-3 * np.cos(k)) for k, one in enumerate(self.values)]
        return other

    def slope(self, number: int) -> tuple[object, float]:
        """The derivative by one argument, by central differences, and how far these may be off."""
        x = np.asarray(self.values[number], float)
        found, far = np.zeros(x.shape), 0.0
        for at in np.ndindex(x.shape):
            found[at], error = self._slope(number, at)
            far = max(far, error)
        return found, far

    def _slope(self, number: int, at: tuple) -> tuple[float, float]:
        scale = abs(float(np.asarray(self.values[number])[at])) or 1.0

        def moved(h):
            x = np.array(self.values[number], float)
            x[at] += h
            values = [*self.values]
            values[number] = x if x.ndim else float(x)
            return float(self(*values))

        slopes, at_once = [], []
        for h in (scale * 10.0**-k for k in (3, 4, 5, 6)):
            wide, narrow = ((moved(s) - moved(-s)) / (2 * s) for s in (h, h / 2))
            slopes.append((4 * narrow - wide) / 3)
            at_once.append((moved(h) - 2 * moved(0.0) + moved(-h)) / h)  # a kink
        far = [abs(a - b) for a, b in zip(slopes, slopes[1:], strict=False)]
        best = int(np.argmin(far))
        return slopes[best + 1], max(far[best], 0.1 * abs(at_once[best + 1]))


def _floats(tree):
    """The floats and arrays of floats in nested tuples, lists and dicts."""
    if isinstance(tree, (tuple, list, dict)):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _floats(one)
    elif isinstance(tree, float) or (isinstance(tree, np.ndarray) and tree.dtype == float):
        yield tree


def _with(tree, values):
    """The same with other values in place of floats and arrays."""
    if isinstance(tree, dict):
        return {name: _with(one, values) for name, one in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(_with(one, values) for one in tree)
    return next(values) if [*_floats(tree)] else tree


def _sum_of(result):
    found = [one for one in _numbers(result)]
    if not found:
        raise NoNumber
    return sum((0.7 + 0.3 * np.cos(k)) * one for k, one in enumerate(found))


def _numbers(result):
    if isinstance(result, (tuple, list)):
        for one in result:
            yield from _numbers(one)
    elif isinstance(result, dict):
        yield from _numbers([*result.values()])
    elif isinstance(result, float):
        yield result
    elif isinstance(result, (np.ndarray, tg.Tensor)) and result.dtype.kind == "f":
        yield np.sum(result * np.cos(np.arange(np.size(result))).reshape(np.shape(result)))


class NoNumber(Exception):
    """The result of a function has no float."""


# --- which ----------------------------------------------------------------------------------------


def calls_of(package: str):
    """The calls of functions of a package in their docstrings: one of each function."""
    if package in _FIRST:
        exec(_FIRST[package], vars(importlib.import_module(package)))
    if package in CALLS:
        yield from _calls_given(importlib.import_module(package), CALLS[package])
        return
    seen = set()
    for module in _modules(package):
        for name, function in sorted(vars(module).items()):
            is_own = str(getattr(function, "__module__", "")).startswith(package)
            if not is_own or isinstance(function, type) or not callable(function):
                continue
            if id(function) not in seen and function.__doc__:
                seen.add(id(function))
                yield from _calls_in(module, name, function.__doc__)


def _calls_given(top: types.ModuleType, texts: str):
    for node in ast.parse(f"({texts})").body[0].value.elts:
        name = ast.unparse(node.func)
        part, _, own = name.rpartition(".")
        module = importlib.import_module(f"{top.__name__}.{part}") if part else top
        given = [eval(ast.unparse(one), {"np": np}) for one in node.args]
        yield Call(module, own, tuple(given), {})


def _modules(package: str) -> list[types.ModuleType]:
    top = importlib.import_module(package)
    names = [package]
    for one in pkgutil.walk_packages(getattr(top, "__path__", ()), f"{package}.", lambda _: None):
        if not any(part.startswith(_SKIPPED) for part in one.name.split(".")[1:]):
            names.append(one.name)
    found = []
    for name in names:
        with contextlib.suppress(BaseException):
            found.append(importlib.import_module(name))
    return found


def _calls_in(module: types.ModuleType, name: str, text: str):
    top = sys.modules[module.__name__.partition(".")[0]]
    space = {**vars(top), **vars(module), "np": np}
    for example in doctest.DocTestParser().get_examples(text):
        try:
            tree = ast.parse(example.source)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and _called(node.func) == name:
                    call = Call(module, name, *_arguments(node, space))
                    if call.values:
                        yield call
                        return
            with contextlib.redirect_stdout(io.StringIO()), _limited():
                exec(compile(tree, name, "exec"), space)
        except Exception:  # examples may need anything
            continue


def _arguments(node: ast.Call, space: dict) -> tuple[tuple, dict]:
    named = ast.Dict([ast.Constant(x.arg) for x in node.keywords], [x.value for x in node.keywords])
    every = ast.Tuple([ast.List([*node.args], ast.Load()), named], ast.Load())
    args, kwargs = eval(
        compile(ast.fix_missing_locations(ast.Expression(every)), "", "eval"), space
    )
    return tuple(args), kwargs


@contextlib.contextmanager
def _limited():
    """Raise TimeoutError after some seconds."""
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def _called(node) -> str:
    return getattr(node, "attr", None) or getattr(node, "id", "")


# --- whether --------------------------------------------------------------------------------------


def outcome(call: Call, is_eager: bool) -> tuple[str, str]:
    """How it went, "right", "wrong", "refused" or "left out", and what to say of it."""
    try:
        value = float(call(*call.values))
        if not np.isfinite(value) or float(call(*call.values)) != value:
            return "left out", "the value is not finite, or another in each call"
        slopes = [call.slope(number) for number in range(len(call.values))]
    except Exception as error:
        return "left out", f"{type(error).__name__}: {error}"
    numbers = tuple(range(len(call.values)))
    try:
        results = [tg.value_and_grad(call, numbers)(*call.values)]
        if not is_eager:
            c = tg.compile(call, argnums=numbers)
            results += [c.value_and_grad(*call.values) for _ in range(3)]
            near = [one * (1 + 1e-4) for one in call.values]
            eager = tg.value_and_grad(call, numbers)
            other, expected = c.value_and_grad(*near), eager(*near)
            ulp = [eager(*[np.nextafter(one, end) for one in near]) for end in (-np.inf, np.inf)]
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "refused", f"{type(error).__name__}: {error} [{place.filename}:{place.lineno}]"
    for number, (found, gradient) in enumerate(results):
        if not np.isclose(found, value, rtol=1e-9, atol=0.0, equal_nan=True):
            return "wrong", f"call {number}: value {found}, wanted {value}"
        for x, one, (slope, far) in zip(call.values, gradient, slopes, strict=True):
            least = 1e-9 * abs(value) / (np.min(np.abs(x)) or 1.0)
            if not np.allclose(one, slope, rtol=1e-5, atol=10 * far + least):
                return "wrong", f"call {number}: {one} at {x}, differences {slope} (± {far:.1e})"
    if not is_eager:
        every = [[value, *slopes] for value, slopes in (other, expected, *ulp)]
        for one, two, *beside in zip(*every, strict=True):
            rounding = max(np.max(np.abs(three - two)) for three in beside)  # of the arguments
            if not np.allclose(one, two, rtol=1e-9, atol=10 * rounding + 1e-300):
                return "wrong", f"compiled, nearby: {one}, eager {two}"
    return "right", ""


def _stop(*_):
    raise TimeoutError(f"more than {_SECONDS} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--match", default="")
    parser.add_argument("--eager", action="store_true", help="not compiled")
    parser.add_argument("--refused", action="store_true", help="say what is refused")
    given = parser.parse_args()
    tg.config.enter = True
    os.chdir(tempfile.mkdtemp())  # examples write files
    signal.signal(signal.SIGALRM, _stop)
    every = collections.Counter()
    warnings.simplefilter("ignore")
    for package in given.packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            print(f"{package}: skipped, {error}")
            continue
        counts, begin = collections.Counter(), time.perf_counter()
        for call in calls_of(package):
            if given.match not in call.name or call.name.endswith(_ILL):
                continue
            try:
                with _limited():
                    how, text = outcome(call, given.eager)
                    if how == "wrong" and outcome(call.nearby(), given.eager)[0] == "right":
                        how = "edge"
            except TimeoutError as error:
                how, text = "left out", str(error)
            counts[how] += 1
            if how == "wrong" or (how != "right" and given.refused):
                print(f"{how:8} {call.name}: {text:.400}", flush=True)
        every += counts
        print(f"{package}: {dict(counts)}, {time.perf_counter() - begin:.0f} s", flush=True)
    tried = every["right"] + every["refused"] + every["wrong"]
    print(f"{tried} functions: {dict(every)}, right {every['right'] / max(tried, 1):.1%}")
    return int(every["wrong"] > 0 or every["right"] < 0.95 * tried)


if __name__ == "__main__":
    sys.exit(main())
