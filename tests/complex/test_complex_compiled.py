"""Complex arguments of compiled functions: signatures, files, rows of many; data of Hessians."""

import numpy as np
import pytest

import tapegrad as tg

X, Z = np.array([0.5, 0.7]), np.array([1.0 + 2.0j, 0.3 - 1.0j])


def test_a_complex_argument_is_told_from_a_real_one():
    """Two of the same shapes in another order have the same parts."""

    def f(pair):
        return np.sum(np.abs(3.0 * pair[0] + pair[1] ** 2 * np.exp(1j * pair[1].real)))

    compiled = tg.compile(f)
    for _ in range(3):
        for pair in ([Z, X], [X, Z], [X, X], [Z, Z]):
            np.testing.assert_allclose(compiled(pair), f(pair), rtol=1e-14)


@pytest.mark.parametrize("z", [Z, 1.0 + 2.0j, [Z, X], {"a": X, "b": (Z[:1], 0.5j)}])
def test_files_of_functions_of_complex_arguments(z, tmp_path):
    def f(tree):
        leaves = [tree] if not isinstance(tree, (list, dict)) else [*dict(enumerate(tree)).values()]
        leaves = [tree[one] for one in tree] if isinstance(tree, dict) else leaves
        first, last = leaves[0], leaves[-1]
        last = last[1] if isinstance(last, tuple) else last
        return {"sum": np.sum(np.abs(first) ** 2), "all": [first * 1j, last * first]}

    compiled = tg.compile(f)
    wanted = compiled(z), compiled(z)
    compiled.save(tmp_path / "program")
    found = tg.load(tmp_path / "program")(z)
    np.testing.assert_equal(found, wanted[0])
    np.testing.assert_equal(wanted[1], wanted[0])


def test_gradients_by_a_file(tmp_path):
    compiled = tg.compile(lambda z: np.sum(np.abs(z) ** 2 * X) + z[0].imag)
    value, gradient = compiled.value_and_grad(Z)
    np.testing.assert_allclose(gradient, 2.0 * Z * X + [1j, 0.0], rtol=1e-14)
    compiled.save(tmp_path / "program")
    found = tg.load(tmp_path / "program").value_and_grad(Z)
    assert found[0] == value
    np.testing.assert_array_equal(found[1], gradient)


@pytest.mark.parametrize("name", ["map", "sum"])
def test_rows_of_complex_arguments_are_refused(name):
    compiled = tg.compile(lambda x, z: np.sum(x * np.abs(z) ** 2))
    with pytest.raises(TypeError, match="take real arguments, and one is complex"):
        getattr(compiled, name)(np.stack([X, X]), np.stack([Z, 2.0 * Z]))


def test_hessians_of_functions_with_complex_data():
    def f(x, z):
        return np.sum(np.abs(np.exp(1j * x) * x + z) ** 2)

    for hessian in (tg.hessian(f), tg.compile(f).hessian):
        found, h = hessian(X, Z), 1e-6
        ends = [tg.grad(f)(X + h * np.array([0.3, -1.0]) * sign, Z) for sign in (1, -1)]
        np.testing.assert_allclose(found @ [0.3, -1.0], (ends[0] - ends[1]) / (2 * h), rtol=1e-7)
        with pytest.raises(TypeError, match=r"tapegrad\.hessian: an argument is complex"):
            tg.hessian(f, 1)(X, Z)
