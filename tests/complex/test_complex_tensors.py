"""Complex tensors as arrays: making, writing, leaving; transforms, programs and refusals."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy as tnp

Z = np.array([1 + 2j, 3.0, -0.5j])


def leaf():
    return tg.tensor(Z, requires_grad=True)


# --- making and leaving ---------------------------------------------------------------------------


def test_attributes_are_numpys():
    z = leaf()
    for name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes"):
        assert getattr(z, name) == getattr(Z, name)
    assert z.T.shape == (3,) and len(z) == 3 and z.real.tolist() == Z.real.tolist()
    assert np.iscomplexobj(z) and not np.isrealobj(z) and np.shape(z) == (3,)
    assert np.result_type(z) == np.complex128 and np.iscomplex(z).tolist() == [True, False, True]
    assert z.requires_grad and z.is_leaf and not z.detach().requires_grad
    assert z.tolist() == Z.tolist() and z[0].item() == 1 + 2j and complex(z.detach()[1]) == 3
    assert np.array_equal(z.detach().numpy(), Z) and np.array_equal(np.asarray(z.detach()), Z)
    assert [complex(one.detach()) for one in z] == Z.tolist()
    assert np.allclose(z, Z) and np.any(z) and not np.all(z == 0) and np.count_nonzero(z) == 3


def test_text():
    assert repr(tg.tensor([1 + 2j])) == "tensor([1.+2.j])"
    assert repr(leaf()[1]) == "tensor(3.+0.j, requires_grad=True)"
    assert repr(tg.tensor([1j], np.complex64)) == "tensor([0.+1.j], dtype=complex64)"
    assert f"{leaf()[0]:.2f}" == "1.00+2.00j"


def test_tensors_are_not_made_by_their_class():
    with pytest.raises(TypeError, match="made by tg.tensor"):
        tg.ComplexTensor(1.0, 2.0)


def test_copies_and_pickles():
    z = leaf()
    for made in (copy.copy(z), z.copy(), np.copy(z), z.clone()):
        assert made.requires_grad and np.array_equal(made.detach().numpy(), Z)
    assert copy.deepcopy(z).is_leaf
    assert np.array_equal(pickle.loads(pickle.dumps(z.detach())).numpy(), Z)


def test_conversions():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    assert x.astype(complex).dtype == np.complex128 and x.astype(complex).requires_grad
    assert leaf().astype(np.complex64).real.dtype == np.float32
    assert tg.tensor([1.0, 2.0], dtype=complex).dtype == np.complex128
    with pytest.raises(TypeError, match=r"cannot become float64; use z\.real"):
        leaf().astype(float)
    with pytest.raises(TypeError, match=r"float\(\) of a complex tensor"):
        float(leaf()[0])
    with pytest.raises(RuntimeError, match="recorded"):
        leaf().numpy()
    with pytest.raises(TypeError, match="derivative would be lost"):
        np.asarray(leaf())


def test_losing_a_derivative_in_a_transform_is_refused(not_entered):
    for lose in (complex, lambda z: z.tolist()[0] if z.ndim else z.tolist()):
        with pytest.raises(TypeError, match="derivative"):
            tg.grad(lambda z, lose=lose: abs(lose(z)))(1 + 1j)


# --- reading and writing --------------------------------------------------------------------------


def test_writes(rng):
    w = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))

    def f(z, x):
        y = tnp.zeros((3, 3), complex)
        y[0] = z[0] * 1j
        y[1, 1:] = x[:2]
        y[2, [0, 2]] += z[1, :2] ** 2
        y *= 1.0 + z[0, 0]
        y.real[1] += x
        y[y.real > 0] *= 2.0
        part = y[:, 1]
        part[...] = part * part
        return np.sum(np.abs(y) ** 2 + y.imag)

    x, h = rng.normal(size=3), 1e-6
    gz, gx = tg.grad(f, (0, 1))(w, x)
    compiled = tg.compile(f, argnums=(0, 1))
    assert compiled(w, x) == pytest.approx(f(w, x), rel=1e-13)
    vz, vx = w[::-1] * 1j, x[::-1]
    found = np.sum((np.conj(gz) * vz).real) + gx @ vx
    wanted = (f(w + h * vz, x + h * vx) - f(w - h * vz, x - h * vx)) / (2 * h)
    assert found == pytest.approx(wanted, rel=1e-6)
    for one, other in zip(compiled.grad(1.01 * w, x), tg.grad(f, (0, 1))(1.01 * w, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)


def test_views_share_memory():
    z = tg.tensor(np.zeros((2, 2)) + 0j)
    z[0][1] = 1j
    z.T[0, 1] = 2.0
    z.real[...] += 1.0
    z.imag[1, 1] = 5.0
    assert z.tolist() == [[1, 1 + 1j], [3, 1 + 5j]]


def test_parts_that_are_exchanged_are_read_before():
    z = tg.tensor(Z)
    z[...] = z.imag + 1j * z.real
    assert z.tolist() == (Z.imag + 1j * Z.real).tolist()


def test_real_tensors_take_no_complex_values():
    x = tg.tensor([1.0, 2.0])
    for write in (
        lambda: x.__setitem__(0, 1j),
        lambda: x.__setitem__(slice(None), leaf()[:2]),
        lambda: x.__imul__(1j),
        lambda: np.copyto(x, leaf()[:2]),
        lambda: np.add(x, 1j, out=x),
    ):
        with pytest.raises(TypeError, match="complex"):
            write()
    assert x.tolist() == [1.0, 2.0]


def test_a_plain_array_is_named_where_complex_values_are_written_to_it():
    plain = np.ones(3, complex)
    for write in (
        lambda: np.subtract(plain, leaf()[:3], out=plain),
        lambda: np.add.reduce(tg.stack([leaf()[:3]] * 2), out=plain),
    ):
        with pytest.raises(TypeError, match="cannot be written to a plain NumPy array"):
            write()
    assert plain.tolist() == [1.0] * 3


def test_the_stand_in_makes_complex_tensors():
    def f(x):
        z = tnp.zeros(2, complex)
        z[0] = x[0] + 1j * x[1]
        w = tnp.array([z[0], 1j * x[1], 3])
        a = tnp.asarray(x, dtype=complex) * tnp.array(x).astype(complex)
        e = tnp.ones_like(z) * tnp.full(2, 1j) + tnp.full_like(z, 2j) + tnp.zeros_like(z)
        return np.sum(np.abs(w[:2] * np.exp(e)) ** 2) + np.sum((1j * a).imag)

    x = np.array([1.0, 2.0])
    differences = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(tg.grad(f)(x), differences, rtol=1e-7)
    compiled = tg.compile(f)
    assert compiled(x) == f(x) and compiled(x + 1.0) == pytest.approx(f(x + 1.0), rel=1e-14)


# --- gradients ------------------------------------------------------------------------------------


def test_gradients_of_leaves_add_up():
    z = leaf()
    for _ in range(2):
        (np.abs(z) ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 4 * Z)
    z.grad = None
    assert z.grad is None
    with pytest.raises(RuntimeError, match=r"is complex, .*z\.real"):
        z.sum().backward()


def test_the_convention_is_torchs():
    assert tg.grad(lambda z: ((1 + 2j) * z**2).real)(1.5 + 0.5j) == 1 - 7j
    assert tg.grad(lambda z: (1 + 2j) * z**2, holomorphic=True)(1.5 + 0.5j) == 1 + 7j
    value, found = tg.value_and_grad(np.exp, holomorphic=True)(1j)
    assert value == pytest.approx(np.exp(1j)) and found == pytest.approx(np.exp(1j))


def test_transforms(rng):
    f = lambda z: z**2 * np.conj(z)
    v = Z[::-1] + 1.0
    value, back = tg.vjp(f, Z)
    tangent = tg.jvp(f, (Z,), (v,))[1]
    np.testing.assert_allclose(value, f(Z))
    np.testing.assert_allclose(tangent, 2 * Z * np.conj(Z) * v + Z**2 * np.conj(v))
    assert np.sum((np.conj(back(v)[0]) * v).real) == pytest.approx(
        np.sum((np.conj(v) * tangent).real)
    )
    jacobian = tg.jacobian(lambda x: np.exp(1j * x))(np.array([0.5, 1.0]))
    np.testing.assert_allclose(jacobian, np.diag(1j * np.exp(1j * np.array([0.5, 1.0]))))
    np.testing.assert_allclose(tg.jacobian(lambda z: np.abs(z) ** 2)(Z), np.diag(2 * Z))
    np.testing.assert_allclose(tg.vmap(lambda z: z * np.conj(z))(Z), np.abs(Z) ** 2)
    tree = tg.grad(lambda d: np.abs(d["a"] * d["b"][0]))({"a": 3j, "b": (2.0,)})
    assert tree == {"a": 2j, "b": (3.0,)}


def test_real_derivatives_of_complex_values_are_complex_ones():
    tangent = tg.jvp(lambda z: z * z, (Z,), (np.ones(3),))[1]
    np.testing.assert_allclose(tangent, 2 * Z)
    np.testing.assert_allclose(tg.vjp(lambda x: 1j * x, np.ones(3))[1](np.full(3, 1j))[0], 1.0)
    assert tg.vjp(lambda x: 1j * x, np.ones(3))[1](np.ones(3))[0].tolist() == [0, 0, 0]


def test_autograd_grad():
    z = leaf()
    y = z * 2.0
    (found,) = tg.autograd.grad(np.sum(np.abs(y) ** 2), [z], retain_graph=True)
    np.testing.assert_allclose(found.numpy(), 8 * Z)
    (found,) = tg.autograd.grad(np.sum(y.real), y)
    assert found.tolist() == [1, 1, 1]
    first, none = tg.autograd.grad(np.sum(z.imag), [z, leaf()], allow_unused=True)
    assert first.tolist() == [1j, 1j, 1j] and none is None
    with pytest.raises(RuntimeError, match="do not depend on input 1"):
        tg.autograd.grad(np.sum(z.imag), [z, leaf()])
    (found,) = tg.autograd.grad(np.sum(np.abs(z) ** 4), z, create_graph=True)
    np.testing.assert_allclose(found.detach().numpy(), 4 * np.abs(Z) ** 2 * Z)
    assert found.requires_grad


def test_operations_of_the_users_refuse_complex_operands():
    class Twice(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    square = tg.elementwise(square_of)
    for f in (Twice.apply, square, lambda z: square(z.real) + square(z)):
        with pytest.raises(TypeError, match="an operand is complex"):
            tg.grad(lambda z, f=f: np.sum(np.abs(f(z))))(Z)


def square_of(x):
    return x * x


def test_files(tmp_path):
    compiled = tg.compile(lambda z: {"a": z * 1j, "b": np.sum(np.abs(np.linalg.inv(z)))})
    a = np.array([[1 + 1j, 0.5], [0.0, 2.0]])
    compiled(a)
    compiled.save(tmp_path / "f.tg")
    loaded = tg.load(tmp_path / "f.tg")
    np.testing.assert_allclose(loaded(2 * a)["a"], 2j * a)
    np.testing.assert_allclose(loaded(2 * a)["b"], np.sum(np.abs(np.linalg.inv(2 * a))))


def test_programs_tell_complex_from_real_arguments():
    f = lambda pair: np.sum(np.abs(pair[0] * 2 + pair[1] * 3j * pair[1]) ** 2)
    compiled, x = tg.compile(f), np.arange(3.0)
    for pair in ((Z, x), (x, Z), (Z, x), (x, Z)):
        assert compiled(pair) == pytest.approx(f(pair), rel=1e-14)
    with pytest.raises(TypeError, match=r"map.*take real arguments"):
        tg.compile(lambda z: np.sum(np.abs(z))).map(np.ones((2, 3)) * 1j)


def test_conditions():
    z = tg.tensor([0.0, 1j, 2.0], requires_grad=True)
    assert np.where(z, 1.0, 0.0).tolist() == [0, 1, 1]
    assert np.where(z)[0].tolist() == [1, 2]


def test_programs_take_and_give_complex_values():
    compiled = tg.compile(lambda z, x: {"a": z * x, "b": [np.abs(z), 1j * x[0]]})
    for scale in (1.0, 1.0, 2.0):
        made = compiled(scale * Z, np.arange(3.0))
        np.testing.assert_allclose(made["a"], scale * Z * np.arange(3.0))
        np.testing.assert_allclose(made["b"][0], np.abs(scale * Z))
        assert made["b"][1] == 0


def test_what_is_not_defined_for_complex_arguments_is_refused():
    f = lambda z: np.sum(np.abs(z))
    with pytest.raises(TypeError, match="returned a complex result.*holomorphic=True"):
        tg.grad(np.sum)(Z)
    with pytest.raises(TypeError, match="second derivatives are of real numbers"):
        tg.hessian(f)(Z)
    with pytest.raises(TypeError, match="second derivatives are of real numbers"):
        tg.hvp(f)(Z, Z)
    with pytest.raises(TypeError, match="the result and an argument are complex"):
        tg.jacobian(np.exp)(Z)
    with pytest.raises(TypeError, match="must be complex; argument 0 is real"):
        tg.grad(np.exp, holomorphic=True)(1.0)
    with pytest.raises(TypeError, match="must return a complex result"):
        tg.grad(np.abs, holomorphic=True)(1j)


def test_values_that_a_choice_reads_make_no_program():
    compiled = tg.compile(lambda z: np.sum(np.abs(np.real_if_close(z))))
    with pytest.warns(RuntimeWarning, match="real_if_close reads complex numbers"):
        assert compiled(Z) == pytest.approx(np.sum(np.abs(Z)))


@dataclasses.dataclass
class Impedance:
    """Real numbers in fields that have the names of parts."""

    real: float
    imag: float


def test_fields_named_as_parts_are_real_numbers():
    found = tg.hessian(lambda p: p.real**2 * p.imag)(Impedance(1.0, 2.0))
    assert found.real.real == 4.0 and found.real.imag == found.imag.real == 2.0
    assert found.imag.imag == 0.0
