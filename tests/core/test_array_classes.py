"""Arrays of other classes than NumPy's own are refused by name; maps of files are taken."""

import numpy as np
import pytest
import scipy.sparse

import tapegrad as tg

V = np.array([0.72, -1.2, 1.9])


class Own(np.ndarray):
    """A user's subclass, whose arithmetic is another."""

    def __mul__(self, other):
        return 1000.0


REFUSED = {
    "masked": np.ma.masked_array(V, [True, False, False]),
    "matrix": V.view(np.matrix),  # np.matrix() warns
    "records": V.view(np.recarray),
    "own": V.view(Own),
}
NAMES = {
    "masked": r"numpy.ma.MaskedArray; .* its mask would be ignored: use x.filled\(value\), or",
    "matrix": r"numpy.matrix; such subclasses of ndarray are .*: convert it with np.asarray\(x\)",
    "records": "recarray; such subclasses of ndarray",
    "own": "test_array_classes.Own; such subclasses of ndarray",
}
OPERATIONS = {
    "x * a": lambda x, a: x * a,
    "x - a": lambda x, a: x - a,
    "x[0] * a": lambda x, a: x[0] * a,
    "x < a": lambda x, a: x < a,
    "x == a": lambda x, a: x == a,
    "x @ a": lambda x, a: x @ a,
    "x += a": lambda x, a: (x * 1.0).__iadd__(a),
    "x[:] = a": lambda x, a: (x * 1.0).__setitem__(slice(None), a),
    "x[[0, 0, 1]] = a": lambda x, a: (x * 1.0).__setitem__([0, 0, 1], a),
    "np.add": lambda x, a: np.add(a, x),
    "np.maximum": lambda x, a: np.maximum(x, a),
    "tg.maximum": lambda x, a: tg.maximum(x, a),
    "np.where": lambda x, a: np.where(x > 0, x, a),
    "np.dot": lambda x, a: np.dot(a, x),
    "np.outer": lambda x, a: np.outer(x, a),
    "np.einsum": lambda x, a: np.einsum("i,i", x, a),
    "np.concatenate": lambda x, a: np.concatenate([x, a]),
    "np.stack": lambda x, a: np.stack([a, x]),
    "np.append": lambda x, a: np.append(x, a),
    "np.average": lambda x, a: np.average(x, weights=a),
    "np.clip": lambda x, a: np.clip(x, a, None),
    "np.isclose": lambda x, a: np.isclose(x, a),
    "np.searchsorted": lambda x, a: np.searchsorted(a, x),
    "np.trapezoid": lambda x, a: np.trapezoid(x, a),
    "np.bincount": lambda x, a: np.bincount(np.array([0, 1, 1]), x * a),
    "np.add.at": lambda x, a: np.add.at(x * 1.0, [0, 0, 1], a),
    "where=": lambda x, a: np.sum(x, where=a > 0),
    "tg.full_like": lambda x, a: tg.full_like(a, x[0]),
    "tg.tensor": lambda x, a: tg.tensor(a),
    "tg.asarray": lambda x, a: tg.asarray(a),
    "backward": lambda x, a: tg.tensor(V, requires_grad=True).backward(a),
}
TRANSFORMS = {
    "grad": lambda a: tg.grad(np.sum)(a),
    "value_and_grad of a tree": lambda a: tg.value_and_grad(lambda p: np.sum(p[0]))([a]),
    "jacobian": lambda a: tg.jacobian(np.sin)(a),
    "hessian": lambda a: tg.hessian(np.sum)(a),
    "vjp": lambda a: tg.vjp(np.sum, a),
    "adjoint": lambda a: tg.vjp(np.sin, np.asarray(a))[1](a),
    "jvp": lambda a: tg.jvp(np.sin, (a,), (a,)),
    "tangent": lambda a: tg.jvp(np.sin, (np.asarray(a),), (a,)),
    "hvp": lambda a: tg.hvp(lambda x: np.sum(x * x))(np.asarray(a), a),
    "vmap": lambda a: tg.vmap(np.sin)(a),
    "record": lambda a: tg.record(np.sum, a),
    "compile": lambda a: tg.compile(np.sum)(a),
    "compile, gradient": lambda a: tg.compile(np.sum).grad(a),
    "compile, data": lambda a: tg.compile(lambda x, d: np.sum(x * 2.0)).grad(V, a),
    "compile, map": lambda a: tg.compile(np.sum).map(a),
    "functional": lambda a: tg.autograd.functional.jacobian(np.sin, a),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("kind", REFUSED)
def test_operations_with_tensors_refuse(kind, operation):
    with pytest.raises(TypeError, match="tapegrad: an operand is an instance of .*" + NAMES[kind]):
        tg.grad(lambda x: np.sum(x) + 0 * (operation(x, REFUSED[kind]) is None))(V)


REFLECTED = {
    "a * x": lambda x, a: a * x,
    "a - x": lambda x, a: a - x,
    "a * x[0]": lambda x, a: a * x[0],
    "a ** x": lambda x, a: a**x,
    "a > x": lambda x, a: a > x,
    "a @ x": lambda x, a: a @ x,
    "a += x": lambda x, a: a.copy().__iadd__(x),
    "a[:] = x": lambda x, a: a.copy().__setitem__(slice(None), x),
}


@pytest.mark.parametrize("operation", REFLECTED.values(), ids=REFLECTED)
@pytest.mark.parametrize("kind", ["masked", "records"])
def test_what_the_other_class_begins_is_refused_too(kind, operation):
    """By us, or by its own conversion of the tensor to an array."""
    with pytest.raises(TypeError, match="tapegrad"):
        tg.grad(lambda x: np.sum(x) + 0 * (operation(x, REFUSED[kind]) is None))(V)


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("kind", REFUSED)
def test_arguments_of_transforms_are_refused(kind, transform):
    with pytest.raises(TypeError, match="tapegrad: an operand is an instance of .*" + NAMES[kind]):
        transform(REFUSED[kind])


def test_a_program_that_is_there_refuses_too():
    compiled = tg.compile(np.sum)
    for _ in range(4):
        compiled.value_and_grad(V)
        compiled(V)
    for array in REFUSED.values():
        for call in (compiled, compiled.grad, compiled.value_and_grad):
            with pytest.raises(TypeError, match="is an instance of"):
                call(array)


KEYS = {
    "mask": np.ma.masked_array([True, True, False], [False, True, False]),
    "indices": np.ma.masked_array([0, 1], [False, True]),
    "own": np.array([True, False, True]).view(Own),
    "in a tuple": (np.ma.masked_array([0, 1], [False, True]),),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys_are_refused(key):
    t = tg.tensor(V, requires_grad=True) * 1.0
    for attempt in (lambda: t[key], lambda: t.__setitem__(key, 0.0), lambda: np.add.at(t, key, 1)):
        with pytest.raises(TypeError, match="is an instance of"):
            attempt()
    assert t.tolist() == V.tolist()


def test_maps_of_files_are_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "v", float, "w+", shape=(3,))
    mapped[:] = V
    for f in (
        lambda x: np.sum(x * mapped),
        lambda x: np.sum(mapped * x),
        lambda x: mapped @ x,
        lambda x: np.sum(np.concatenate([x, mapped]) * np.concatenate([mapped, mapped])),
    ):
        assert np.allclose(tg.grad(f)(V), V)
    assert np.array_equal(tg.grad(lambda x: np.sum(x**2))(mapped), 2 * V)
    compiled = tg.compile(lambda x, d: np.sum(x**2 * d))
    for _ in range(3):
        assert np.allclose(compiled.grad(mapped, mapped), 2 * V * V)
    y = tg.zeros(3)
    y[:] = mapped
    assert y.tolist() == tg.tensor(mapped).tolist() == tg.asarray(mapped).tolist() == V.tolist()
    assert type(tg.asarray(mapped).numpy()) is np.ndarray


SPARSE = {
    "A * x[0]": lambda x, a: a * x[0],
    "np.dot": lambda x, a: np.dot(a, x),
    "np.add": lambda x, a: np.add(x, a),
    "tg.matmul": lambda x, a: tg.matmul(x, a),
    "tg.tensor": lambda x, a: tg.tensor(a),
}


@pytest.mark.parametrize("operation", SPARSE.values(), ids=SPARSE)
@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_matrices_are_refused(kind, operation):
    matrix = kind(np.diag(V))
    with pytest.raises(TypeError, match="tapegrad|unsupported operand"):
        tg.grad(lambda x: np.sum(x) + 0 * (operation(x, matrix) is None))(V)
