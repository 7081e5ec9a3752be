"""Inverses, determinants, equations and products of matrices against PyTorch."""

import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

#: A regular matrix, far from symmetric, of whatever is in x; a definite one; a batch.
A = "(x[:3, :3] + 4.0 * np.eye(3))"
T_A = "(x[:3, :3] + 4.0 * torch.eye(3))"
S = "(x @ x.T + 3.0 * np.eye(3))"
T_S = "(x @ x.T + 3.0 * torch.eye(3))"
B = "(x[:, None, :3] * x[:, :3, None] + 2.0 * np.eye(3))"
T_B = "(x[:, None, :3] * x[:, :3, None] + 2.0 * torch.eye(3))"


def both(text, theirs=None, **fields):
    """An expression of A, S and B; PyTorch's text is the same but for the names."""
    theirs = theirs or text.replace("np.linalg.", "torch.linalg.").replace("np.", "torch.")
    for name, ours, other in (("A", A, T_A), ("S", S, T_S), ("B", B, T_B)):
        text = text.replace("{" + name + "}", ours)
        theirs = theirs.replace("{" + name + "}", other)
    return Expression(text, theirs, **fields)


INVERSES = [
    both("np.linalg.inv({A})"),
    both("np.linalg.inv({S})"),
    both("np.linalg.inv({B})"),
    both("np.linalg.inv({A}.T)"),
    both("np.linalg.inv({A}) @ x"),
    both("x.T @ np.linalg.inv({S}) @ x"),
    both("np.linalg.inv(np.linalg.inv({A}) + {S})"),
    both("np.linalg.inv({A})[::-1, 1:]", "torch.linalg.inv({A}).flip(0)[:, 1:]"),
    both("np.trace(np.linalg.inv({A}))"),
    both("np.linalg.inv(x[:1, :1] + 5.0)"),
    both("np.sum(np.linalg.inv({B}) * x[:, :3, None], axis=0)"),
    both("np.linalg.inv(np.eye(3) * 2.0) @ x", "0.5 * x"),
    both("np.linalg.tensorinv({S}.reshape(3, 1, 3), ind=1)[0] * x[:, :3]"),
    both(
        "np.linalg.tensorinv((x[0][:, None] * x[1] + 4.0 * np.eye(4)).reshape(2, 2, 4))",
        "torch.linalg.tensorinv((x[0][:, None] * x[1] + 4.0 * torch.eye(4)).reshape(2, 2, 4))",
    ),
    both(
        "np.linalg.tensorinv((x[0][:, None] * x[1] + 4.0 * np.eye(4)).reshape(4, 2, 2), ind=1)",
        "torch.linalg.tensorinv((x[0][:, None] * x[1] + 4 * torch.eye(4)).reshape(4, 2, 2), ind=1)",
    ),
]
EQUATIONS = [
    both("np.linalg.solve({A}, x)"),
    both("np.linalg.solve({A}.T, x)"),
    both("np.linalg.solve({S}, x[:, 0])"),
    both("np.linalg.solve({B}, x)", "torch.linalg.solve({B}, x.expand(3, 3, 4))"),
    both("np.linalg.solve({B}, x[:, :3, None])[..., 0]", "torch.linalg.solve({B}, x[:, :3])"),
    both("np.linalg.solve({A}, np.linalg.solve({S}, x))"),
    both("np.linalg.solve({A}, x) * np.linalg.solve({A}.T, x)"),
    both("x[:, 0] @ np.linalg.solve({S}, x[:, 1])"),
    both("np.linalg.tensorsolve({S}.reshape(3, 1, 3), x[:, :1])"),
    both(
        "np.linalg.tensorsolve("
        "(x[0][:, None] * x[1] + 4.0 * np.eye(4)).reshape(2, 2, 4), x[:2, 1:3])",
        "torch.linalg.tensorsolve("
        "(x[0][:, None] * x[1] + 4.0 * torch.eye(4)).reshape(2, 2, 4), x[:2, 1:3])",
    ),
    both(
        "np.linalg.tensorsolve((x[0][:, None] * x[1] + 4.0 * np.eye(4)).reshape(2, 2, 2, 2),"
        " x[:2, 1:3], axes=(0, 2))",
        "torch.linalg.tensorsolve((x[0][:, None] * x[1] + 4.0 * torch.eye(4)).reshape(2, 2, 2, 2),"
        " x[:2, 1:3], dims=(0, 2))",
        choices=False,
        other=(0.7, 1.2),
    ),
]
DETERMINANTS = [
    both("np.linalg.det({A})"),
    both("np.linalg.det(x[:3, :3])"),
    both("np.linalg.det({S}) / 100.0"),
    both("np.linalg.det({B}) / 10.0"),
    both("np.linalg.det(x[:3, 1:])"),
    both("np.linalg.det(x[:2, :2]) * x"),
    both("np.linalg.det(x[:1, :1])"),
    both("np.linalg.det(x[:1, 1:2]) * np.linalg.det({A}.T)"),
    both("np.linalg.det(np.stack([x[:, :3], x[:, 1:]]))"),
    both("1.0 / np.linalg.det({S}) * x[:, 0]"),
    both("np.linalg.slogdet({A})[1]"),
    both("np.linalg.slogdet({S}).logabsdet"),
    both("np.linalg.slogdet({B})[1]"),
    both("np.linalg.slogdet(-{S})[1] * x[0]"),
    both("np.linalg.slogdet({A})[0] * np.linalg.slogdet({A})[1]"),
    both("np.linalg.slogdet({B})[0] * x[:, 0]"),
    both("np.linalg.slogdet({S})[1] + x[:, 0] @ np.linalg.solve({S}, x[:, 1])"),
    both("np.log(np.linalg.det({S}))"),
]
PRODUCTS = [
    both("np.linalg.matrix_power({A}, 0) * x[:, :3]"),
    both("np.linalg.matrix_power({A}, 1)"),
    both("np.linalg.matrix_power(x[:, :3], 2)"),
    both("np.linalg.matrix_power(x[:, :3], 3)"),
    both("np.linalg.matrix_power(0.5 * x[:, :3], 5)"),
    both("np.linalg.matrix_power(0.5 * x[:, :3], 6)"),
    both("np.linalg.matrix_power({A}, -1)"),
    both("np.linalg.matrix_power({A}, -2)"),
    both("np.linalg.matrix_power({S}, -3)"),
    both("np.linalg.matrix_power(0.3 * {B}, 3)"),
    both("np.linalg.matrix_power({B}, -2)"),
    both("np.linalg.multi_dot([x, x.T])"),
    both("np.linalg.multi_dot([x[:, 0], x, x[0]])"),
    both("np.linalg.multi_dot([x[:, 0], x])", "x[:, 0] @ x"),
    both("np.linalg.multi_dot([x, x.T, x])"),
    both("np.linalg.multi_dot([x.T, x, x.T, x])"),
    both("np.linalg.multi_dot([0.1 * x[:, 0], x, 0.1 * x.T, x, x[1]])"),
    both("np.linalg.multi_dot([x, x.T, x[:, 0]])"),
    both("np.linalg.multi_dot([x[:1], x.T, x, x.T[:, :2], x[:2, :3]])"),
    both(
        "np.linalg.multi_dot([np.ones((2, 3)), x, np.ones((4, 1))])",
        "torch.linalg.multi_dot([torch.ones(2, 3).double(), x, torch.ones(4, 1).double()])",
    ),
    both(
        "np.matrix_transpose({B})[:, 0] @ np.linalg.inv({A})",
        "{B}.mT[:, 0] @ torch.linalg.inv({A})",
    ),
    both("np.linalg.vecdot(np.linalg.solve({A}, x).T, x.T)"),
]
EVERYTHING = [*INVERSES, *EQUATIONS, *DETERMINANTS, *PRODUCTS]


@pytest.mark.parametrize("check", CHECKS)
@parametrized(EVERYTHING)
def test_expression(expression, check):
    CHECKS[check](expression)


@native_parts([e for e in EVERYTHING if e.choices])
def test_native(part):
    check_native(part)
