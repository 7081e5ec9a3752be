"""SciPy's `Rotation` and `Slerp` in differentiated functions: values, derivatives, programs."""

import warnings

import numpy as np
import pytest
import scipy
from richardson import differences
from scipy.spatial.transform import Rotation, RotationSpline, Slerp

import tapegrad as tg
from tapegrad.scipy.spatial import transform as ours

RNG = np.random.default_rng(0)
V, R = RNG.normal(size=(4, 3)), np.array([0.3, -0.5, 0.7])
RS, FIVE = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
ONE, SEVERAL = Rotation.from_rotvec([0.2, 0.1, -0.4]), Rotation.from_rotvec(FIVE)
PATH = Slerp(np.arange(5.0), SEVERAL)
TURNED = V @ ONE.as_matrix().T + 0.1 * RNG.normal(size=(4, 3))
SKEW = np.array([[1.0, 0.3, -0.2], [0.1, 0.8, 0.4], [-0.5, 0.2, 1.3]])
Q, TIMES, AXES = np.array([0.1, 0.5, -0.3, 0.7]), np.array([0.3, 1.2, 3.9]), np.eye(3)[[2, 0, 1]]
OBLIQUE = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]
Z = np.zeros(3)


def of(rotvec, degrees=False):
    return Rotation.from_rotvec(rotvec, degrees=degrees)


CASES = {
    "rotvec": (lambda x: of(x).as_matrix(), R),
    "rotvec of 0": (lambda x: of(x).as_matrix(), Z),
    "quat of 0": (lambda x: of(x).as_quat(), Z),
    "rotvec of 0 and back": (lambda x: of(x).as_rotvec(), Z),
    "more than half a turn": (lambda x: of(4.0 * x).as_rotvec(), R),
    "rotvecs": (lambda x: of(x).as_quat(), RS),
    "no rotvecs": (lambda x: of(x[:0]).as_quat(), RS),
    "degrees": (lambda x: of(50.0 * x, degrees=True).as_rotvec(degrees=True) / 50.0, R),
    "numbers in a list": (lambda x: of([x[0], 0.2, x[1]]).as_matrix(), R),
    "quat": (lambda x: Rotation.from_quat(x).as_rotvec(), Q),
    "quat of w < 0": (lambda x: Rotation.from_quat(x).as_rotvec(), -Q),
    "quat of no rotation": (lambda x: Rotation.from_quat(x).as_rotvec(), np.array([0, 0, 0, 2.0])),
    "canonical": (lambda x: Rotation.from_quat(x).as_quat(canonical=True), -Q),
    "scalar first": (
        lambda x: Rotation.from_quat(x, scalar_first=True).as_quat(scalar_first=True),
        Q,
    ),
    "class": (lambda x: Rotation(x).as_mrp(), -Q),
    "mrp": (lambda x: Rotation.from_mrp(x).as_mrp(), R),
    "matrix": (lambda x: Rotation.from_matrix(x).as_matrix(), SKEW),
    "matrix of a rotation": (lambda x: Rotation.from_matrix(x).as_rotvec(), ONE.as_matrix()),
    "matrix of no rotation": (lambda x: Rotation.from_matrix(x).as_rotvec(), np.eye(3)),
    "matrices": (lambda x: Rotation.from_matrix(x).as_matrix(), SEVERAL.as_matrix()),
    "euler": (lambda x: Rotation.from_euler("xyz", x).as_matrix(), R),
    "euler intrinsic": (lambda x: Rotation.from_euler("ZXZ", x).as_quat(), R),
    "euler about one axis": (lambda x: Rotation.from_euler("y", x[0]).as_matrix(), R),
    "euler in degrees": (lambda x: Rotation.from_euler("YX", 40.0 * x[:2], True).as_matrix(), R),
    "eulers": (lambda x: Rotation.from_euler("zyx", x).as_matrix(), RS),
    "eulers about one axis": (lambda x: Rotation.from_euler("z", x[:, None]).as_matrix(), R),
    **{
        f"as euler {seq}": (lambda x, seq=seq: of(x).as_euler(seq), R)
        for seq in ("xyz", "zyx", "ZYX", "XYZ", "zxz", "ZXZ", "yxy", "XZY")
    },
    "as euler in degrees": (lambda x: of(x).as_euler("zxy", degrees=True) / 100.0, RS),
    "davenport": (lambda x: Rotation.from_davenport(AXES, "extrinsic", x).as_matrix(), R),
    "davenport about one": (
        lambda x: Rotation.from_davenport([0, 0, 1.0], "i", x[0]).as_quat(),
        R,
    ),
    "davenport to the axis": (lambda x: Rotation.from_davenport(x, "i", 0.4).as_matrix(), R),
    "as davenport": (lambda x: of(x).as_davenport(AXES, "intrinsic"), R),
    "as davenport oblique": (lambda x: of(x).as_davenport(OBLIQUE, "e"), R),
    "apply": (lambda x: of(x).apply(V), R),
    "apply inverse": (lambda x: of(x).apply(V, inverse=True), RS),
    "apply to one": (lambda x: of(x).apply(V[0]), RS),
    "apply plain": (lambda x: ONE.apply(x), R),
    "apply several plain": (lambda x: SEVERAL.inv().apply(x), R),
    "apply one made inside": (
        lambda x: Rotation.from_euler("xyz", [10, 20, 30], degrees=True).apply(x),
        RS,
    ),
    "product": (lambda x: (of(x) * ONE).as_quat(), R),
    "product with one made inside": (lambda x: (Rotation.identity() * of(x)).as_quat(), R),
    "products": (lambda x: (of(x) * SEVERAL).as_matrix(), R),
    "inverse": (lambda x: of(x).inv().as_quat(), R),
    "power": (lambda x: (of(x) ** 2.5).as_matrix(), R),
    "power of no rotation": (lambda x: (of(x) ** 2.5).as_matrix(), Z),
    "power -1": (lambda x: (of(x) ** -1).as_matrix(), R),
    "power 0": (lambda x: (of(x) ** 0).as_matrix(), R),
    "magnitude": (lambda x: of(x).magnitude(), RS),
    "some": (lambda x: of(x)[1:3].as_matrix(), RS),
    "chosen": (lambda x: of(x)[[2, 0]].inv().as_rotvec(), RS),
    "each": (lambda x: np.stack([one.as_rotvec() for one in of(x)]), RS),
    "concatenate": (lambda x: Rotation.concatenate([of(x), ONE]).as_matrix(), R),
    "mean": (lambda x: of(x).mean().as_matrix(), 0.5 * RS),
    "mean to weights": (lambda x: of(0.5 * RS).mean(x).as_matrix(), np.array([1.0, 2, 3, 0.5])),
    "mean of two": (lambda x: of(x).mean().as_matrix(), RS[:2]),
    "align": (lambda x: Rotation.align_vectors(x, V)[0].as_matrix(), TURNED),
    "align the others": (lambda x: Rotation.align_vectors(V, x, [1.0, 2, 1, 0.5])[1], TURNED),
    "align two": (lambda x: Rotation.align_vectors(x, V[:2])[0].as_rotvec(), TURNED[:2]),
    "slerp to times": (lambda x: PATH(x).as_matrix(), TIMES),
    "slerp at one time": (lambda x: PATH(x[0]).as_matrix(), TIMES),
    "slerp to rotations": (lambda x: Slerp([0, 1, 2, 3.0], of(x))([0.5, 1, 2.2]).as_rotvec(), RS),
    "slerp made inside": (lambda x: Slerp([0, 1, 2, 3, 4.0], SEVERAL)(x).as_quat(), TIMES),
    "slerp to its times": (lambda x: Slerp(x, SEVERAL[:3])([0.5, 1.2]).as_matrix(), R + [0, 2, 2]),
}


@pytest.mark.parametrize("name", CASES)
def test_rotations(name):
    f, x = CASES[name]
    w = np.random.default_rng(5).normal(size=np.shape(f(x)))
    loss = lambda x: np.sum(w * f(x)) + np.sum(np.sin(f(x)))
    value, gradient = tg.value_and_grad(loss)(x)
    np.testing.assert_allclose(value, loss(x), atol=1e-13)
    np.testing.assert_allclose(gradient, differences(loss, x, 2e-3), atol=1e-7)
    compiled, other = tg.compile(loss), x + 0.05 * np.cos(np.arange(x.size)).reshape(x.shape)
    compiled.grad(x)
    np.testing.assert_allclose(compiled.grad(other), differences(loss, other, 2e-3), atol=1e-7)
    v = np.sin(np.arange(1.0, x.size + 1.0)).reshape(x.shape)
    np.testing.assert_allclose(tg.jvp(loss, (x,), (v,))[1], np.sum(gradient * v), atol=1e-11)
    slopes = tg.grad(loss)
    second = (slopes(x + 1e-4 * v) - slopes(x - 1e-4 * v)) / 2e-4
    np.testing.assert_allclose(tg.hvp(loss)(x, v), second, atol=1e-5)
    each = tg.vmap(slopes)(np.stack([x, other]))
    np.testing.assert_allclose(each, [gradient, slopes(other)], atol=1e-12)


@pytest.mark.skipif(scipy.__version__ < "1.17", reason="refuses other types than its own")
def test_products_with_a_plain_rotation_on_the_left():
    for plain in (ONE, SEVERAL):
        f = lambda x: np.sum(np.sin((plain * of(x)).as_matrix()))
        np.testing.assert_allclose(tg.grad(f)(R), differences(f, R, 2e-3), atol=1e-9)


def test_second_derivatives_of_no_rotation():
    """R = 1 + [x] + ½ [x]² + …"""
    found = tg.hessian(lambda x: np.sum(SKEW * of(x).as_matrix()))(Z)
    wanted = 0.5 * (SKEW + SKEW.T) - np.trace(SKEW) * np.eye(3)
    np.testing.assert_allclose(found, wanted, atol=1e-15)
    third = tg.jacobian(tg.hessian(lambda x: np.sum(R * of(x).as_rotvec())))(Z)
    np.testing.assert_allclose(third, np.zeros((3, 3, 3)), atol=1e-14)
    f = lambda x: np.sum(np.sin(of(x).apply(V)))
    compiled = tg.compile(f)
    for x in (0.1 * R, Z, R, 1e-9 * R, 0.6 * R, 1e-200 * R):
        np.testing.assert_allclose(compiled.grad(x), differences(f, x, 2e-3), atol=1e-9)
        np.testing.assert_allclose(
            tg.hessian(compiled)(x), tg.jacobian(tg.grad(f))(x), rtol=1e-10, atol=1e-13
        )


def test_no_rotation_has_a_magnitude_of_derivative_0():
    assert not tg.grad(lambda x: of(x).magnitude())(Z).any()


def test_locked_gimbals_warn_and_have_the_derivative_of_what_is_left():
    for seq, angles in (("xyz", [0.3, 0.5 * np.pi, 0.0]), ("ZXZ", [0.0, 0.0, 0.7])):
        q = Rotation.from_euler(seq, angles).as_quat()
        with pytest.warns(UserWarning, match="Gimbal lock"):
            wanted = Rotation.from_quat(q).as_euler(seq)
        with pytest.warns(UserWarning, match="Gimbal lock"):
            value, slopes = tg.value_and_grad(
                lambda q: Rotation.from_quat(q).as_euler(seq) @ np.array([1.0, 0.0, 2.0])
            )(q)
        np.testing.assert_allclose(value, wanted @ [1.0, 0.0, 2.0], atol=1e-14)
        assert np.isfinite(slopes).all() and slopes.any()


def test_programs_notice_other_decisions():
    axis = np.array([0.0, 0.6, 0.8])
    f = lambda t: np.sum(of(t * axis).as_rotvec() * R)
    compiled = tg.compile(f)
    for t in (0.4, 3.0, 3.3, 7.0, 1e-3, 0.0):
        np.testing.assert_allclose(compiled.grad(t), axis @ R, rtol=1e-12)
        np.testing.assert_allclose(compiled(t), f(t), rtol=1e-13, atol=1e-15)
    checked = tg.compile(lambda q: Rotation.from_quat(q).as_matrix().sum())
    checked(Q)
    checked(2.0 * Q)
    with pytest.raises(ValueError, match="zero norm"):
        checked(0.0 * Q)
    inside = tg.compile(lambda t: PATH(t).as_quat().sum())
    inside(0.5)
    for t in (3.5, 1.0, 0.0, 4.0):
        np.testing.assert_allclose(inside(t), PATH(t).as_quat().sum(), rtol=1e-13)
    with pytest.raises(ValueError, match="range"):
        inside(4.5)
    with pytest.raises(ValueError, match="determinant"):
        tg.grad(lambda m: Rotation.from_matrix(m).as_matrix().sum())(-np.eye(3))


def test_plain_arguments_make_scipys_own():
    made = ours.Rotation.from_rotvec(R)
    assert type(made) is Rotation and isinstance(made, ours.Rotation)
    assert type(ours.Slerp([0, 1.0], SEVERAL[:2])) is Slerp
    assert ours.Rotation == Rotation and ours.Rotation.__name__ == "Rotation"

    def f(x):
        one = Rotation.from_rotvec(x)
        path, two = Slerp([0, 1.0], SEVERAL[:2]), Rotation.from_rotvec([x, x])
        known = isinstance(one, Rotation), isinstance(path, Slerp), isinstance(one, Slerp)
        assert known == (True, True, False)
        assert one.single and one.shape == () and len(two) == 2
        assert one.approx_equal(one) and not one.approx_equal(ONE, atol=1e-3)
        return one.magnitude()

    np.testing.assert_allclose(tg.grad(f)(R), R / np.linalg.norm(R))
    of_ours = tg.grad(lambda x: ours.Rotation.from_rotvec(x).apply(V).sum())(R)
    np.testing.assert_allclose(of_ours, tg.grad(lambda x: of(x).apply(V).sum())(R))
    assert tg.grad(lambda x: of(x).magnitude())(R.astype(np.float32)).dtype == np.float32


def test_a_rotation_that_is_written_later_is_seen():
    turns = Rotation.from_rotvec(FIVE)
    f = lambda x: np.sum(turns.apply(x) ** 3)
    compiled = tg.compile(f)
    for k in range(3):
        np.testing.assert_allclose(tg.grad(f)(R), differences(f, R, 2e-3), atol=1e-9)
        if scipy.__version__ >= "1.17":  # earlier objects show no memory
            np.testing.assert_allclose(compiled.grad(R), differences(f, R, 2e-3), atol=1e-9)
        turns[k] = ONE


def test_what_has_no_derivative_is_refused_by_name():
    for call, text in (
        (lambda x: of(x).reduce(SEVERAL), r"Rotation\.reduce"),
        (lambda x: RotationSpline([0, 1, 2.0], of(np.stack([x, 2 * x, 3 * x]))), "RotationSpline"),
        (lambda x: Rotation.align_vectors(x, R), "two pairs"),
        (lambda x: Rotation.align_vectors(V * x, V, return_sensitivity=True), "return_sensitivity"),
    ):
        with pytest.raises(TypeError, match=text):
            tg.grad(call)(R)

    def writes(x):
        every = Rotation.concatenate([of(x), ONE])
        every[0] = ONE
        return every.as_quat().sum()

    with pytest.raises(TypeError, match="in place"):
        tg.grad(writes)(R)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: Rotation.from_quat(x),
        lambda x: Rotation.from_mrp(x[:2]),
        lambda x: Rotation.from_euler("xx", x[:2]),
        lambda x: Rotation.from_euler("xyz", x[:2]),
        lambda x: Rotation.from_euler("xyQ", x),
        lambda x: of(x).as_euler("xy"),
        lambda x: of(x).apply(x[:2]),
        lambda x: of([x, x]) * of([x, x, x]),
        lambda x: Slerp([0, 1, 0.5], of([x, x, x])),
        lambda x: Slerp([0, 1], of([x, x, x])),
    ],
)
def test_errors_are_scipys(call):
    with pytest.raises(ValueError), warnings.catch_warnings():
        call(R)
    with pytest.raises(ValueError):
        tg.grad(lambda x: call(x) and x.sum())(R)
