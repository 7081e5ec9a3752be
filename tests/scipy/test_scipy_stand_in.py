"""`tapegrad.scipy`: SciPy's own for plain arguments; derivatives, or errors by name, for others."""

import importlib
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
import tapegrad.scipy as ours
from tapegrad._core.tensor.registry import STAND_INS
from tapegrad.scipy import _differentiable, _tested_code

NAMES = {"special": ours.special, "linalg": ours.linalg}


def expression(text, torch=None, **fields):
    return Expression(text, torch, names=NAMES, **fields)


SPD = "(x.T @ x + np.diag([3.0, 4.0, 5.0, 6.0]))"
TABLE = [
    expression("special.expit(x) * x", "torch.special.expit(x) * x"),
    expression("special.erf(x) * x", "torch.special.erf(x) * x"),
    expression("special.erfc(x) * x", "torch.special.erfc(x) * x"),
    expression("special.gamma(x) * x", choices=False, other=(0.5, 2.0)),
    expression("special.gammaln(x) * x", "x.lgamma() * x", choices=False, other=(0.5, 2.0)),
    expression("special.digamma(x) * x", choices=False, other=(0.5, 2.0)),
    expression("special.psi(x) * x", choices=False, other=(0.5, 2.0)),
    expression("special.polygamma(1, x)", choices=False, other=(0.5, 2.0)),
    expression("special.softmax(x, axis=1)", "torch.softmax(x, 1)"),
    expression("special.softmax(x)", "torch.softmax(x.ravel(), 0).reshape(3, 4)"),
    expression("special.log_softmax(x, 0)", "torch.log_softmax(x, 0)"),
    expression("special.logsumexp(x)", "x.logsumexp((0, 1))"),
    expression("special.logsumexp(x, axis=1, keepdims=True)", "x.logsumexp(1, True)"),
    expression("special.logsumexp(x, 0, b=x + 3.0)", "torch.log(((x + 3.0) * x.exp()).sum(0))"),
    expression("special.logsumexp([x[0, 0], 2.0 * x[1, 1]])"),
    expression(
        f"linalg.cholesky({SPD}, lower=True)",
        "torch.linalg.cholesky(x.T @ x + torch.diag(torch.tensor([3.0, 4, 5, 6], dtype=float)))",
    ),
    expression(f"linalg.cholesky({SPD})"),
    expression(f"linalg.solve({SPD}, x.T)"),
    expression(f"linalg.solve({SPD}, x[0], assume_a='gen')"),
    expression("linalg.norm(x)", "torch.linalg.matrix_norm(x)"),
    expression("linalg.norm(x, 1, axis=0)", "torch.linalg.vector_norm(x, 1, 0)"),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts([e for e in TABLE if e.choices])
def test_native(part):
    check_native(part)


# --- the doors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ours.__all__)
def test_submodules_hold_what_scipys_hold(name):
    module = importlib.import_module(f"tapegrad.scipy.{name}")
    theirs = importlib.import_module(f"scipy.{name}")
    assert module is getattr(ours, name) is getattr(tg.scipy, name)
    for public in theirs.__all__:
        found, wanted = getattr(module, public), getattr(theirs, public)
        if inspect.ismodule(wanted):
            assert found.__name__ == f"tapegrad.{wanted.__name__}"
        elif found is not wanted and not hasattr(found, "__wrapped__"):  # derived from SciPy's
            is_class = isinstance(wanted, type)
            assert issubclass(found, wanted) if is_class else isinstance(found, type(wanted))
        elif found is not wanted:
            assert found.__wrapped__ is wanted
            assert f"scipy.{name}.{public}" in (f"{found.__module__}.{public}")[len("tapegrad.") :]
            is_own = f"{name}.{public}" in _differentiable.OURS or name == "stats"
            assert not isinstance(wanted, type) or is_own
    assert {*theirs.__all__} <= {*dir(module)}
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name


def test_all_forms_of_import():
    code = (
        "import sys, tapegrad.scipy; print([n for n in sys.modules if n.startswith('scipy.st')])\n"
        "import tapegrad.scipy.spatial.distance as d, scipy.spatial.distance as e\n"
        "from tapegrad.scipy.sparse import linalg, csr_array\n"
        "from tapegrad.scipy import stats, constants\n"
        "import scipy.stats, scipy.sparse\n"
        "assert stats.norm.__wrapped__ is scipy.stats.norm\n"
        "assert csr_array.__wrapped__ is scipy.sparse.csr_array\n"
        "assert d.cdist.__wrapped__ is e.cdist and constants.g == 9.80665\n"
        "assert linalg.spsolve.__wrapped__ is scipy.sparse.linalg.spsolve\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    assert ours.__version__ == scipy.__version__


def test_functions_can_be_pickled():
    for function in (ours.special.erf, ours.stats.zscore, ours.linalg.solve):
        assert pickle.loads(pickle.dumps(function)) is function


def test_plain_arguments_are_scipys(rng):
    x = rng.uniform(0.5, 2.0, size=(3, 3))
    assert np.array_equal(ours.special.gammaln(x), scipy.special.gammaln(x))
    assert type(ours.special.expit(0.3)) is type(scipy.special.expit(0.3))
    assert np.array_equal(ours.linalg.solve(x, x, assume_a="gen"), scipy.linalg.solve(x, x))
    found = ours.special.logsumexp(x, return_sign=True)
    assert np.array_equal(found[0], scipy.special.logsumexp(x, return_sign=True)[0])
    assert np.array_equal(ours.stats.zscore(tg.tensor([1.0, 2.0])), [-1.0, 1.0])


REFUSED = {
    "stats.ecdf": lambda x: ours.stats.ecdf(x),
    "stats.bws_test": lambda x: ours.stats.bws_test(x, x**2),
    "signal.remez": lambda x: ours.signal.remez(7, [0.0, 0.1, x[0], 0.5], [1.0, 0.0], fs=4.0),
    "signal.place_poles": lambda x: ours.signal.place_poles(np.diag(x), np.eye(3), x),
    "fft.fhtoffset": lambda x: ours.fft.fhtoffset(x[0], 0.5),
    "ndimage.binary_erosion": lambda x: ours.ndimage.binary_erosion(np.ones(5), x),
    "spatial.distance.jaccard": lambda x: ours.spatial.distance.jaccard(x, x),
    "optimize.bracket": lambda x: ours.optimize.bracket(lambda t, p: t - p, args=(x[0],)),
    "optimize.milp": lambda x: ours.optimize.milp(x).x,
    "sparse.linalg.lsqr": lambda x: ours.sparse.linalg.lsqr(scipy.sparse.eye(3), x),
    "optimize.direct": lambda x: ours.optimize.direct(np.sum, [(0.0, 1.0)], **{"args": [x]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_without_derivative_refuse_by_name(name):
    x = np.array([0.5, 1.5, 2.0])
    with pytest.raises(TypeError, match=rf"^tapegrad: scipy.{name}\(\) takes plain values"):
        tg.grad(lambda x: np.sum(REFUSED[name](x)))(x)
    with pytest.raises(TypeError, match=rf"^tapegrad: scipy.{name}\(\) takes plain values"):
        REFUSED[name](tg.tensor(x, requires_grad=True))


OBJECTS = {
    "a distribution": lambda x: ours.stats.levy_stable.logpdf(x, 1.5, 0.5),
    "its scale": lambda x: ours.stats.levy_stable.logpdf(0.3, 1.5, 0.5, scale=x[0]),
    "a frozen one": lambda x: ours.stats.landau(x[0], 1.0).logpdf(0.2),
    "a spline": lambda x: ours.interpolate.SmoothBivariateSpline(x, x, x, kx=1, ky=1)(0.5, 0.5),
    "an interpolation": lambda x: ours.interpolate.UnivariateSpline([0.0, 1.0, 2.0], x, k=1)(0.5),
    "its roots": lambda x: ours.interpolate.sproot(([0.0] * 4 + [1.0] * 4, [*x, 1.0], 3)),
    "a sparse matrix": lambda x: scipy.sparse.csr_array(np.eye(3)).multiply(x),
    "a rotation": lambda x: ours.spatial.transform.Rotation.from_rotvec(x).reduce(),
    "a ufunc": lambda x: ours.special.agm(1, x),
    "an integrator": lambda x: (
        ours.integrate.ode(lambda t, y: -x[0] * y).set_initial_value([1.0]).integrate(1.0)[0]
    ),
    "a callback": lambda x: ours.optimize.brute(lambda t: (t[0] - x[0]) ** 2, ((0.0, 1.0),)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_scipys_never_drop_a_derivative(name):
    with pytest.raises(TypeError, match="tapegrad"):
        tg.grad(lambda x: np.sum(OBJECTS[name](x)))(np.array([0.5, 0.7, 0.9]))


def test_arguments_that_ours_do_not_have_are_refused():
    x = np.diag([2.0, 3.0])
    for f, argument in [
        (lambda x: ours.special.logsumexp(x, return_sign=True)[0], "return_sign=True"),
    ]:
        with pytest.raises(TypeError, match=f"tapegrad.scipy.*{argument} has no derivative yet"):
            tg.grad(lambda x: np.sum(f(x)))(x)


@pytest.mark.parametrize("name", ["cholesky", "norm", "solve"])
def test_numbers_that_are_not_finite_are_refused_as_scipy_does(name):
    f = {
        "cholesky": lambda x: np.sum(ours.linalg.cholesky(x)),
        "norm": lambda x: ours.linalg.norm(x),
        "solve": lambda x: np.sum(ours.linalg.solve(x, [1.0, 2.0])),
    }[name]
    x, bad = np.diag([2.0, 3.0]), np.diag([2.0, np.nan])
    c = tg.compile(f)
    for function in (f, tg.grad(f), c, c.grad):
        function(x), function(x + 0.1 * np.eye(2))
        with pytest.raises(ValueError, match="must not contain infs or NaNs"):
            function(bad)
        function(x)


def test_every_name_of_ours_is_scipys():
    is_old = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"
    for name in [*_differentiable.OURS]:
        module, _, function = name.rpartition(".")
        theirs = getattr(importlib.import_module(f"scipy.{module}"), function, None)
        if theirs is None and (name in _tested_code.RELEASED or is_old):
            continue  # it came later
        ours = getattr(importlib.import_module(f"tapegrad.scipy.{module}"), function)
        assert STAND_INS[ours] is theirs


def test_the_array_api_of_scipy_does_nothing_odd():
    """Where SciPy asks arrays for their namespace."""
    code = (
        "import numpy as np, scipy.special, scipy.stats, scipy.linalg, tapegrad as tg\n"
        "from tapegrad.scipy import special\n"
        "x = np.array([0.3, 0.7, 1.2])\n"
        "wanted = tg.grad(lambda x: np.sum(np.exp(x) / np.sum(np.exp(x)) * x))(x)\n"
        "assert np.allclose(tg.grad(lambda x: np.sum(special.softmax(x) * x))(x), wanted)\n"
        "theirs = scipy.special.softmax, scipy.special.logsumexp, scipy.stats.zscore\n"
        "for f in (*theirs, scipy.linalg.expm, special.jv):\n"
        "    try:\n"
        "        found = tg.grad(lambda x: np.sum(f(x) * x))(x)\n"
        "    except (TypeError, np.linalg.LinAlgError):  # expm takes matrices\n"
        "        continue\n"
        "    steps = 1e-6 * np.eye(3)\n"
        "    ends = [[np.sum(f(x + s * h) * (x + s * h)) for h in steps] for s in (1, -1)]\n"
        "    assert np.allclose(found, np.subtract(*ends) / 2e-6, 1e-6), f\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**ENVIRONMENT}
    )
    assert done.returncode == 0, done.stderr


ENVIRONMENT = {**importlib.import_module("os").environ, "SCIPY_ARRAY_API": "1"}


def stacked_calls(rng):
    """Arguments of functions that take stacks, here of two matrices."""
    a, b = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 2))
    spd = a @ a.swapaxes(1, 2) + 3.0 * np.eye(3)
    names = "cosm coshm eig eigh eigvals eigvalsh inv logm null_space orth pinv pinvh polar qr "
    names += "signm sinm sinhm sqrtm svd svdvals tanm tanhm cho_factor cholesky lu_factor"
    calls: dict = {name: (spd,) for name in names.split()}
    calls |= {name: (spd, b) for name in ("solve", "lstsq", "solve_triangular")}
    equations = ("solve_continuous_lyapunov", "solve_lyapunov", "solve_discrete_lyapunov")
    calls |= {name: (spd, a) for name in ("expm_frechet", *equations)}
    calls["fractional_matrix_power"] = spd, 0.7
    calls["solve_sylvester"], calls["orthogonal_procrustes"] = (spd, spd, a), (spd, a)
    calls |= {f"solve_{kind}_are": (spd, b, spd, np.eye(2)) for kind in ("continuous", "discrete")}
    calls["cho_solve"] = (np.stack([scipy.linalg.cho_factor(one)[0] for one in spd]), False), b
    factors = [scipy.linalg.lu_factor(one) for one in spd]
    calls["lu_solve"] = tuple(map(np.stack, zip(*factors, strict=True))), b
    calls["solve_banded"] = (1, 1), spd, b
    calls["solveh_banded"] = np.stack([0.1 * spd[:, 0], spd[:, 1] + 9.0], 1), b
    return calls


def test_stacks_of_plain_arrays():
    """They are taken with every SciPy; eigenvectors and the like are given but for their signs."""
    calls = stacked_calls(np.random.default_rng(4))
    assert {*calls} == _differentiable._STACKED

    def part(x, k):
        if isinstance(x, tuple):
            return tuple(part(one, k) for one in x)
        return x[k] if np.ndim(x) > 1 and len(x) == 2 and x.shape != (2, 2) else x

    def listed(found):
        return [*found] if isinstance(found, (list, tuple)) else [found]

    for name, args in calls.items():
        found = listed(getattr(ours.linalg, name)(*args))
        wanted = [listed(getattr(scipy.linalg, name)(*[part(x, k) for x in args])) for k in (0, 1)]
        for one, *both in zip(found, *wanted, strict=True):
            assert type(one) is np.ndarray, name
            up_to_sign = np.abs if name in ("eig", "eigh", "svd", "qr", "orth") else np.asarray
            np.testing.assert_allclose(up_to_sign(one), up_to_sign(np.stack(both)), err_msg=name)


def _to_out(x):
    found = np.empty(2)
    scipy.special.expit([x[0], 1.0], out=found)
    return found @ x


def _by_position(x):
    found = np.zeros(2)
    scipy.special.xlogy(2.0, x, found)
    return found.sum()


def _of_some(x):
    return scipy.special.gammainc(2.0, x, out=np.ones(2), where=[True, False]).sum()


def _of_two_results(x):
    found = np.zeros(2), np.zeros(2)
    scipy.special.sici(x, out=found)
    return found[0] @ found[1]


@pytest.mark.parametrize("f", [_to_out, _by_position, _of_some, _of_two_results])
def test_ufuncs_take_numpys_keywords(f):
    compiled = tg.compile(f, native=False)
    for x in (np.array([0.3, 0.7]), np.array([1.4, 0.2]), np.array([0.3, 0.7])):
        wanted = [(f(x + h) - f(x - h)) / 2e-5 for h in 1e-5 * np.eye(2)]
        for transformed in (tg.value_and_grad(f), compiled.value_and_grad):
            value, gradient = transformed(x)
            assert value == pytest.approx(f(x), rel=1e-14)
            np.testing.assert_allclose(gradient, wanted, rtol=1e-8)
