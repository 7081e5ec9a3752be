"""Random programs held against NumPy: those of fixed seeds; see fuzz.py for more of them."""

import fuzz_oracle
import fuzz_programs
import numpy as np
import pytest
from extent import rounds
from fuzz import spread
from fuzz_checks import check_program

PROGRAMS, NATIVE, AT_ONCE = rounds(60, 10), rounds(4, 1), 5
NATIVELY = spread(0, PROGRAMS, NATIVE)


@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_programs(first):
    """Values, first and second derivatives, in every way; see fuzz_modes.py."""
    for seed in range(first, first + AT_ONCE):
        checked = check_program(seed, native=seed in NATIVELY)
        for finding in checked.findings:
            pytest.fail(f"{finding.mode}: {finding.message}\n\n{finding.script}", pytrace=False)


def test_programs_are_of_all_kinds():
    kinds = set()
    for seed in range(120):
        program = fuzz_programs.generate(seed)
        fuzz_programs.point_texts(program, 3)
        kinds |= program.kinds
    assert kinds == {
        "aliasing arguments", "arrays made", "branches", "branches in loops", "complex creators",
        "complex matrices", "complex numbers", "complex views", "complex writes", "creators",
        "dtype bool", "dtype complex128", "dtype float32", "dtype float64", "dtype int64",
        "element-wise", "functions that write", "integers and truths", "loops", "loops of arrays",
        "loops of complex numbers", "loops of matrices", "masks, index writes", "matrices",
        "nested loops", "numbers", "numbers as arguments", "reductions",
        "results with axes", "stand-in", "ufunc.at", "views", "writes", "zero sizes",
        *(f"memory: {layout}" for layout in fuzz_programs.LAYOUTS),
    }  # fmt: skip


def test_a_seed_makes_the_same_program():
    first, again = (fuzz_programs.generate(5) for _ in range(2))
    assert first.text == again.text
    assert fuzz_programs.point_texts(first, 3) == fuzz_programs.point_texts(again, 3)


def test_the_oracle():
    """Derivatives of known functions; kinks, jumps and what is not linear are refused."""
    x, v, w = np.array([0.3, -1.2]), np.array([1.0, 0.5]), np.array([-0.25, 2.0])
    directions = {"v": (v,), "w": (w,)}
    found = fuzz_oracle.truth(lambda x: np.sum(np.sin(x) * x[0]), (x,), 1, directions)
    s, c = np.sin(x), np.cos(x)
    gradient = c * x[0] + np.array([np.sum(s), 0.0])
    hessian = np.diag(-s * x[0]) + np.outer([1, 0], c) + np.outer(c, [1, 0])
    for name, right in (("v", gradient @ v), ("w", gradient @ w)):
        assert fuzz_oracle.close(found.along[name], right, 1e-3 * fuzz_oracle.RTOL)
    for name, right in (("vv", v @ hessian @ v), ("vw", v @ hessian @ w)):
        assert fuzz_oracle.close(found.second[name], right, 1e-2 * fuzz_oracle.RTOL)
    tied = np.array([0.5, 0.5, 0.5])
    for f, place in [
        (lambda x: np.abs(x[0] - 0.3), x),
        (lambda x: np.maximum(x[0] - 0.3 + 1e-5, 0.0), x),
        (lambda x: np.maximum(x[0] - 0.3, 0.0) ** 2, x),
        (lambda x: np.floor(x[0] / 0.3), x),
        (lambda x: np.median(x), tied),
        (lambda x: np.max((x[:, None] - x) ** 2), tied),
        (lambda x: np.log(x[0] - 0.3), x),
    ]:
        n = len(place)
        along = {"v": (np.arange(1.0, 1.0 + n),), "w": (place[::-1] * [1, -2, 3][:n],)}
        with pytest.raises(fuzz_oracle.Rough):
            fuzz_oracle.truth(f, (place,), 1, along)


def test_a_wrong_derivative_is_found(monkeypatch):
    """A slope that is off by a millionth, in the sweep of one program."""
    import fuzz_checks

    real = fuzz_checks.tg.value_and_grad

    def off(f, argnums):
        def evaluate(*args):
            value, gradients = real(f, argnums)(*args)
            return value, tuple(gradient * (1.0 + 1e-6) for gradient in gradients)

        return evaluate

    monkeypatch.setattr(fuzz_checks.tg, "value_and_grad", off)
    found = [one.mode for seed in (1, 2, 4) for one in check_program(seed).findings]
    assert "eager gradient" in found
