"""The comparison of expressions with PyTorch and differences: what it passes, what it catches."""

import dataclasses

import pytest
from expressions import (
    CHECKS,
    Expression,
    check_derivatives,
    check_native,
    native_parts,
    parametrized,
    torch,
)

TABLE = [
    Expression("np.logaddexp(x, 0.5)", "torch.logaddexp(x, torch.tensor(0.5))"),
    Expression(
        "np.cumsum(x, 1) / np.sum(x)",
        "torch.cumsum(x, 1) / x.sum()",
        other=(0.5, 2.0),
        choices=False,
    ),
    Expression("np.sort(x, axis=0)", "x.sort(0).values"),
    Expression("np.sum(np.where(np.isnan(x), 0.0, x**2), 1)", nans=(2, 7)),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts(TABLE)
def test_native(part):
    check_native(part)


@pytest.mark.skipif(torch is None, reason="PyTorch is missing")
def test_another_function_in_pytorch_is_noticed():
    with pytest.raises(AssertionError):
        check_derivatives(dataclasses.replace(TABLE[0], torch="torch.logaddexp(x, x)"))


def test_a_wrong_derivative_is_noticed():
    wrong = Expression("x * tg.asarray(x).detach()")
    with pytest.raises(AssertionError):
        check_derivatives(wrong)
