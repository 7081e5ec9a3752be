"""Matrices and complex numbers of every sort given to every function; 20 000 times nightly."""

import random

import hostile_matrices
import numpy as np
import pytest
import scipy
import scipy.linalg

import tapegrad as tg
import tapegrad.scipy.linalg as la

#: Before, SciPy refuses stacks, and has other faults than `hostile_matrices` knows.
OLD_SCIPY = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"


@pytest.mark.skipif(OLD_SCIPY, reason="calls are compared with those of SciPy 1.17")
@pytest.mark.parametrize("seed", range(4))
def test_random_calls(seed):
    rng = random.Random(seed)
    for _ in range(250):
        hostile_matrices.hostile_matrices(rng, compiling=0.05)


def recorded(x):
    return tg.tensor(x, requires_grad=True)


@pytest.mark.parametrize(
    "name", ["solve_continuous_lyapunov", "solve_discrete_lyapunov", "solve_lyapunov"]
)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_lyapunov_equations_refuse_what_is_not_finite(name, place, bad):
    args = [np.array([[0.6, 0.2], [0.0, 0.3]]) for _ in range(2)]
    f = getattr(la, name)
    compiled = tg.compile(f, argnums=(0, 1))
    np.testing.assert_allclose(compiled(*args), getattr(scipy.linalg, name)(*args), rtol=1e-12)
    args[place][0, 1] = bad
    of_plain = getattr(scipy.linalg, name), f, compiled
    for call in () if OLD_SCIPY and name == "solve_discrete_lyapunov" else of_plain:
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="not contain infs"):
            call(*args)
    with pytest.raises(ValueError, match="array must not contain infs or NaNs"):
        f(*map(recorded, args))


@pytest.mark.parametrize("lu", [np.eye(3), np.stack([np.eye(3)] * 2), np.eye(3)[:2]])
def test_lu_solve_refuses_exchanges_of_another_number(lu):
    with pytest.raises(ValueError):
        scipy.linalg.lu_solve((lu, np.arange(2)), np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"linalg.lu_solve: lu has shape .* must be \(…, M, M\)"):
        la.lu_solve((recorded(lu), np.arange(2)), np.ones((3, 1)))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "var"])
def test_axes_are_whole_numbers(name):
    for x in (np.ones((2, 3)), np.ones((2, 3)) * 1j)[: 1 if name == "max" else 2]:
        for axis in (1.5, "1"):
            with pytest.raises(TypeError):
                getattr(np, name)(recorded(x), axis=axis)
        with pytest.raises(np.exceptions.AxisError):
            getattr(np, name)(recorded(x), axis=2)


def test_powers_of_complex_zero():
    z = np.array([0j, 1.0 + 1.0j])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((recorded(z) ** -1.5).detach().numpy()[0], (z**-1.5)[0])
        np.testing.assert_array_equal((recorded(z) ** (0.5 + 1j)).detach().numpy()[0], 0.0)


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) >= "2.5.0", reason="NumPy 2.5 has no singular values of inf"
)
def test_a_condition_of_infinite_elements_is_infinite():
    x = np.array([[1.0, np.inf], [2.0, 3.0]])
    with np.errstate(all="ignore"):
        found = np.linalg.cond(recorded(np.stack([np.eye(2), x]))).detach().numpy()
        np.testing.assert_array_equal(found, [1.0, np.inf])
        assert np.isinf(tg.compile(np.linalg.cond)(x))


def test_powers_of_matrices_by_numbers_alone():
    with pytest.raises(TypeError, match=r"fractional_matrix_power: t has shape \(2, 2\); it must"):
        la.fractional_matrix_power(recorded(np.eye(2)), recorded(np.eye(2)))


def test_scales_of_procrustes_problems():
    """One for each."""
    x = np.random.default_rng(3).normal(size=(2, 4, 3))
    y = np.sin(x)
    wanted = [scipy.linalg.orthogonal_procrustes(*pair)[1] for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(la.orthogonal_procrustes(x, y)[1], wanted, rtol=1e-13)
    found = la.orthogonal_procrustes(recorded(x), y)[1].detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("name", ["cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"])
def test_functions_of_matrices_refuse_what_is_not_finite(name):
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="must not contain infs or NaNs"):
            getattr(la, name)(recorded(np.diag([1.0, bad])))


@pytest.mark.parametrize("norm", [0, "", False])
def test_norms_of_transforms_are_names(norm):
    for call in (lambda f: f(np.ones(3), norm=norm), lambda f: f(recorded(np.ones(3)), norm=norm)):
        with pytest.raises(ValueError, match="Invalid norm"):
            call(np.fft.fft)


def test_complex_numbers_have_no_order():
    with pytest.raises(TypeError, match="tapegrad.sort: "):
        recorded(np.array([1.0 + 1.0j, 0.5])).sort()


@pytest.mark.parametrize("shapes", [((0, 3), (3, 3)), ((3, 3), (3, 0)), ((3, 0), (0, 3))])
def test_products_without_elements_are_compiled(shapes):
    args = [np.ones(shape) for shape in shapes]
    compiled = tg.compile(lambda a, b: np.sum(a @ b), argnums=(0, 1))
    for _ in range(2):
        value, gradients = compiled.value_and_grad(*args)
        assert value == 0.0
        assert [x.shape for x in gradients] == list(shapes)
    assert tg.compile(np.matmul)(*args).shape == np.matmul(*args).shape


def test_what_numpy_makes_of_overflow_and_of_zero():
    a = recorded(np.diag([1e300, 1e300]))
    with np.errstate(over="ignore"):
        assert (
            np.linalg.cond(a, "fro").detach()
            == np.linalg.cond(np.diag([1e300] * 2), "fro")
            == np.inf
        )
    z = recorded(np.array([0.0, 2.0])) + 0j
    with np.errstate(all="ignore"):
        found, wanted = np.reciprocal(z).detach().numpy(), np.reciprocal(np.array([0j, 2.0]))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shapes", [((1, 1), (1, 1)), ((1, 1), (1, 1, 1)), ((2, 3, 6), (2, 3))])
def test_shapes_of_tensorsolve(shapes):
    a, b = (np.random.default_rng(5).normal(size=shape) for shape in shapes)
    found, wanted = np.linalg.tensorsolve(recorded(a), b), np.linalg.tensorsolve(a, b)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.detach(), wanted)


WRONG = {
    "operand has shape": (np.linalg.LinAlgError, lambda: np.linalg.pinv(recorded(np.ones(3)), "a")),
    "rcond has shape": (ValueError, lambda: np.linalg.pinv(recorded(np.eye(3)), (0.1,))),
    "axis is 1.5": (TypeError, lambda: np.linalg.norm(recorded(np.eye(3)), axis=1.5)),
    "not a sequence": (TypeError, lambda: np.polyval({}, recorded(np.eye(3)))),
    "float16": (TypeError, lambda: np.linalg.solve(recorded(np.eye(3)), np.eye(3, dtype="f2"))),
    "float16 is": (TypeError, lambda: np.linalg.lstsq(recorded(np.eye(3)), np.eye(3, dtype="f2"))),
}


@pytest.mark.parametrize("words", WRONG)
def test_arguments_that_numpy_refuses(words):
    kind, call = WRONG[words]
    with pytest.raises(kind, match=words):
        call()
