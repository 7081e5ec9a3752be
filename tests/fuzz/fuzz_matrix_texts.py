"""Texts of matrices and complex numbers that random programs are put together from.

`{0}` and `{1}` are operands. SPD is a positive definite matrix made of `{0}`, NON one without
symmetry; both are well conditioned. APART is `{0}` with other lengths of its columns, and a
diagonal. Also of an orthogonal `{0}`, or one with equal columns, their eigenvalues and singular
values differ. What depends on a choice of eigenvectors or of signs appears only in forms that do
not: projectors, functions of matrices, factors with a positive diagonal.
"""

_DIAGONAL = "np.diag(2.0 + 0.3 * np.arange(len({0})))"
GRAM = f"({{0}} @ {{0}}.T + {_DIAGONAL})"
COMPLEX_GRAM = f"({{0}} @ np.conj({{0}}).T + {_DIAGONAL})"
APART = (
    "({0} * (1.0 + 0.4 * np.arange({0}.shape[1]))"
    " + np.eye(*{0}.shape) * (2.0 + np.arange({0}.shape[1])))"
)
UNSYMMETRIC = "({0} + 0.3 * np.triu({0}, 1) - 0.3 * np.tril({0}, -1))"


def written_out(templates, gram=GRAM):
    """Templates with the matrices that they name."""
    general = UNSYMMETRIC.replace("{0}", gram)
    return [
        one.replace("SPD", gram).replace("NON", general).replace("APART", APART)
        for one in templates
    ]


#: Of a matrix, real or complex, to a matrix.
_MATRICES = [
    "np.linalg.inv(SPD)", "np.linalg.inv(NON)", "np.linalg.solve(NON, {0})",
    "np.linalg.solve(SPD, {0}) @ {0}.T", "np.linalg.cholesky(SPD)",
    "np.linalg.cholesky(SPD, upper=True)", "np.linalg.pinv({0})", "np.linalg.pinv(SPD)",
    "np.linalg.matrix_power({0}[:2, :2], 3) * 0.1", "np.linalg.matrix_power(NON, -2)",
    "np.linalg.matrix_power(0.3 * NON, 2)", "np.linalg.multi_dot([{0}, {0}.T, {0}]) * 0.1",
    "np.kron({0}[:2, :2], {0}[:1, :2])", "np.kron([[0.5, -0.3]], {0})", "la.expm(0.2 * NON)",
    "la.expm(-0.1 * SPD)", "la.sqrtm(SPD)", "la.logm(SPD)", "la.block_diag({0}, 0.3, {0}[:1])",
    "la.solve_triangular(np.linalg.cholesky(SPD), {0}, lower=True)",
    "la.solve_triangular(NON, {0})", "la.cho_solve((np.linalg.cholesky(SPD), True), {0})",
    "la.cho_solve((la.cholesky(SPD), False), {0})", "la.solve_sylvester(SPD, NON, SPD) * 0.3",
    "(lambda q, r: r * np.sign(np.diagonal(r).real)[:, None])(*np.linalg.qr(NON))",
    "(lambda q, r: q * np.sign(np.diagonal(r).real))(*np.linalg.qr(NON))",
    "(lambda q, r: q @ r)(*np.linalg.qr({0}))",
    "(lambda q, r: np.abs(np.diag(r)))(*np.linalg.qr({0}))",
    "(lambda w, u: (u * np.tanh(w)) @ np.conj(u).T)(*np.linalg.eigh(SPD))",
    "(lambda w, u: (u / w) @ np.conj(u).T)(*np.linalg.eigh(SPD))",
    "(lambda w, u: u[:, -1:] @ np.conj(u[:, -1:]).T)(*np.linalg.eigh(SPD))",
    "(lambda u, s, v: (u * np.tanh(s)) @ v)(*np.linalg.svd(APART, full_matrices=False))",
    "(lambda u, s, v: (u * np.sin(s)) @ v)(*np.linalg.svd(APART * 0.7, False))",
    "(lambda u, s, v: u[:, :1] @ v[:1])(*np.linalg.svd({0} + 2.0, full_matrices=False))",
    "np.linalg.inv({0}[:, None, :] * {0}[:, :, None] * 0.3 + np.eye({0}.shape[1]))[0]",
    "np.linalg.solve(np.stack([SPD, NON]), np.stack([{0}, 0.5 * {0}]))[1]",
    "np.linalg.lstsq(NON, {0})[0]", "np.linalg.lstsq(np.vstack(({0}, 2.0 * np.eye({0}.shape[1]))),"
    " np.vstack(({0}[:, :1], np.ones(({0}.shape[1], 1)))))[0]",
    "np.einsum('ij,kj->ik', {0}, {0}) * 0.3", "np.tensordot({0}, {0}, ((1,), (1,))) * 0.3",
]  # fmt: skip
MATRICES = written_out(_MATRICES)
#: To a vector of real numbers.
_VECTORS = [
    "np.linalg.eigvalsh(SPD)", "np.linalg.svd({0}, compute_uv=False)",
    "np.linalg.eigvalsh(SPD, UPLO='U')", "np.log(np.linalg.eigh(SPD)[0])",
    "np.linalg.norm({0} + 0.1, axis=1)", "np.linalg.norm({0} - 0.2, axis=0, keepdims=True)",
    "np.abs(np.linalg.det(np.stack([SPD, 0.5 * SPD]))) * 0.01",
    "np.linalg.slogdet(np.stack([NON, SPD]))[1]",
]  # fmt: skip
VECTORS = written_out(_VECTORS)
#: To a real number.
_NUMBERS = [
    "np.abs(np.linalg.det(NON)) * 0.01", "np.linalg.slogdet(NON)[1]", "np.linalg.slogdet(SPD)[1]",
    "np.linalg.norm({0} + 0.1)", "np.linalg.norm({0}, 1)", "np.linalg.norm({0}, np.inf)",
    "np.linalg.norm(APART, 2)", "np.linalg.norm({0} + np.eye(*{0}.shape), 'nuc')",
    "np.linalg.norm(NON, -2)", "np.linalg.cond(NON) * 0.1", "np.trace(np.linalg.inv(SPD)).real",
    "np.linalg.eigvalsh(SPD)[-1]", "np.sum(np.log(np.linalg.eigvalsh(SPD)))",
    "np.sum(np.linalg.svd({0}, compute_uv=False) ** 2) * 0.2", "np.linalg.norm({0}, 'fro')",
    "np.linalg.det({0}[:2, :2] + 2.0 * np.eye(len({0}[:2]), {0}[:2, :2].shape[1])).real * 0.2",
]  # fmt: skip
NUMBERS = written_out(_NUMBERS)
#: Of a vector, real or complex, to an array.
OF_VECTOR = [
    "np.linalg.solve(np.outer({0}, np.conj({0})) + 1.5 * np.eye(len({0})), {0})",
    "np.linalg.inv(np.diag({0} * np.conj({0}) + 1.0) + 0.1 * np.outer({0}, {0}))",
    "la.toeplitz({0})", "la.circulant({0}) * 0.5", "np.kron({0}, [0.5, -0.3])",
    "np.linalg.norm({0}[:, None] + np.array([2.0, 0.3]), axis=1)",
    "la.solve_toeplitz(np.append([9.0], 0.3 * np.tanh({0}))[:-1], {0})",
    "np.linalg.solve({0}[:, None, None] * np.array([[0.2, 0.5], [-0.5, 0.1]]) + 2.0 * np.eye(2),"
    " np.ones((2, 1)))[..., 0]",
    "np.linalg.eigvalsh(np.outer({0}, np.conj({0})) + np.diag(np.arange(len({0})) * 0.7))",
    "np.linalg.inv({0}[:, None, None] * np.array([[0.2, 0.5], [-0.5, 0.1]]) + 2.0 * np.eye(2))[0]",
]  # fmt: skip
#: Rounds of a loop that carries a square matrix `u`, well conditioned in each.
ROUNDS = [
    "u = 0.5 * u + 0.5 * np.linalg.inv(u @ {h} + 2.0 * np.eye(len(u)))",
    "u = np.linalg.solve(u @ {h} + 2.0 * np.eye(len(u)), u + 0.3 * np.eye(len(u)))",
    "u = np.linalg.cholesky(0.3 * u @ {h} + np.eye(len(u)))",
    "u = u / (1.0 + np.linalg.norm(u))",
    "u = la.expm(0.1 * (u - {h}))",
    "u = 0.5 * (u + np.linalg.inv(u @ {h} + np.eye(len(u))) @ u)",
    "u = u * np.abs(np.linalg.det(u @ {h} + np.eye(len(u)))) ** -0.2",
    "u[:2, :2] = np.linalg.inv(u[:2, :2] @ {h}[:2, :2] + 2.0 * np.eye(len(u[:2])))",
]

# --- complex numbers ----------------------------------------------------------------------------

#: Of a real array and a real operand to a complex array.
COMPLEX_MADE = [
    "{0} + 1j * {1}", "1j * {0}", "np.exp(1j * {0})", "{0} * (0.3 - 0.4j)", "np.sqrt({0} + 0.5j)",
    "({0} + 2j) ** 0.5", "np.fft.fft({0}) * 0.5", "np.fft.rfft({0}, axis=-1) * 0.5",
    "np.fft.ifft({0}, norm='ortho')", "np.where({0} > 0.9, 0.4j, {0} + 0.3j)",
    "0.5 * {0} - {1} * 0.3j", "np.fft.ihfft({0})", "np.fft.rfft({0}, 4)", "{1} / ({0} + 1.7j)",
    "np.log({0} + 1.2j)",
    "np.cos({0}) + np.sin({1}) * 1j", "np.power({0} + 0.4j, 2)", "complex(0.3, -0.2) * {0}",
]  # fmt: skip
COMPLEX_UNARY = [
    "np.conj({0})", "{0}.conj()", "1j * {0}", "{0} * (0.5 + 0.3j)", "np.exp(0.5 * {0})",
    "np.sin(0.5 * {0})", "np.cos(0.5 * {0})", "np.tanh(0.3 * {0})", "np.sqrt({0} + 2.3)",
    "np.log({0} + 6.0j)", "0.3 * {0} ** 2", "0.1 * {0} ** 3", "np.square({0}) * 0.4", "-{0}",
    "{0} / (1.5 + np.abs({0}))", "1.0 / ({0} + 7.0j)", "0.4 * {0} * abs({0} + 0.1)", "{0} + 0.2",
    "np.where(np.abs({0}) > 0.7, {0}, 0.3j)", "np.where({0}.real > 0.1, {0}, -{0})",
    "{0} - np.mean({0})", "np.sinh(0.3 * {0})", "np.arctan(0.2 * {0})", "np.arcsinh(0.3 * {0})",
    "np.expm1(0.5 * {0})", "np.log1p(0.1 * {0})", "({0} + 3.0) ** 0.5", "({0} + 5.0) ** 0.3j",
    "np.reciprocal({0} + 7.0)", "2.0 ** (0.5 * {0})", "np.sign({0} + 0.3j)", "1.0 - {0}",
    "{0}.real - 0.5j * {0}.imag", "np.negative({0})", "np.exp(1j * np.angle({0} + 0.3))",
    "({0} + 7.0j) ** -1", "np.power({0} + 7.0j, -2) * 9.0", "-2.0 * {0} / 3.0",
    "{0} / (1.5 - 0.2j)", "np.sqrt(-2.0 * ({0} + 4.0 + 0.1j))", "0.1 * {0} ** 4 - {0} + {0} ** 0",
]  # fmt: skip
#: `{1}` is complex or real.
COMPLEX_BINARY = [
    "0.5 * {0} * {1}", "{0} + {1}", "{0} - 1j * {1}", "{0} / (3.0 + {1} * np.conj({1}))",
    "np.where(np.abs({0}) > np.abs({1}), {0}, {1})", "np.multiply({0}, {1}) * 0.4",
    "0.5 * np.conj({0}) * {1}", "{1} - {0}", "np.subtract({0}, 0.5 * {1})", "{1} / ({0} + 7.0j)",
    "{0} / ({1} + 7.0j)",
]  # fmt: skip
#: Of a complex array to a real one of its shape, or nearly.
TO_REAL = [
    "np.abs({0})", "np.angle({0})", "{0}.real", "{0}.imag", "np.real({0})", "np.imag({0})",
    "abs({0}) ** 2 * 0.5", "({0} * np.conj({0})).real * 0.3", "np.real(0.5 * {0} ** 2)",
    "np.hypot({0}.real, {0}.imag + 2.0)", "np.fft.ifft({0}).real", "np.fft.irfft({0}, 5)",
    "np.fft.hfft({0}, 4) * 0.2", "np.absolute({0} + 0.2)", "np.log(np.abs({0}) + 0.5)",
    "np.arctan2({0}.imag, 1.5 + {0}.real ** 2)", "np.fft.irfft({0}, 6, norm='ortho')",
]  # fmt: skip
#: To a real number.
COMPLEX_REDUCED = [
    "np.sum({0}).real", "np.linalg.norm({0})", "np.vdot({0}, {0}).real * 0.3",
    "np.max(np.abs({0}))", "np.mean({0}).imag", "np.prod(0.7 * {0}).real", "np.abs(np.sum({0}))",
    "np.var({0})", "{0}.sum().imag", "np.real({0}.mean())", "np.angle(np.sum({0}) + 0.3j)",
    "np.sum(np.abs({0}) ** 2) * 0.2", "np.std(np.append({0}, 2.0j))", "np.ravel({0})[-1].real",
    "np.ravel({0})[0].imag", "abs(np.ravel({0})[1])", "np.vdot({0}, np.cos({0} * 0.3)).imag",
]  # fmt: skip
#: Of a complex vector to an array that shares no memory with it.
OF_COMPLEX_VECTOR = [
    "np.fft.fft({0}) * 0.4", "np.fft.ifft({0}, 4)", "np.fft.fft({0}, norm='ortho')",
    "np.fft.fftshift({0})", "np.fft.ifftshift({0}) * 1j", "np.outer({0}, np.conj({0})) * 0.3",
    "np.convolve({0}, [1j, 0.5])", "np.diag({0})", "{0}[np.argsort(np.abs({0}))]",
    "np.concatenate(({0}, 1j * {0}[:1]))", "np.stack(({0}, np.conj({0})))", "np.cumsum({0}) * 0.3",
    "np.roll({0}, 1)", "{0}[[1, 0, 1]]", "np.repeat({0}, 2)", "np.append({0}, 0.3)",
    "np.cumprod({0} * 0.5)", "np.diff({0})", "{0}[np.abs({0}) > 0.3]", "np.pad({0}, 1)",
    "{0}[:, None] - np.conj({0})", "np.fft.ifft(np.fft.fft({0}) * np.arange(len({0})) * 0.3)",
    "np.array([1.0, 0.5j]) * {0}[:2]", "np.take({0}, [0, -1])", "np.flip({0}).copy()",
]  # fmt: skip
#: Of a complex matrix.
OF_COMPLEX_MATRIX = [
    "{0} @ np.conj({0}).T * 0.3", "np.fft.fft2({0}) * 0.3", "np.fft.ifft2({0})", "{0}.T * 1j",
    "np.fft.fft({0}, axis=0) * 0.4", "np.einsum('ij,kj->ik', {0}, np.conj({0})) * 0.3",
    "np.sum({0}, axis=1)", "np.mean({0}, axis=0)", "{0} @ {0}[0] * 0.3", "np.trace({0}) * {0}",
    "np.fft.fftn({0}) * 0.3", "np.tril({0})", "np.diagonal({0}) * 1.0", "np.dot({0}, {0}.T) * 0.3",
    *written_out(_MATRICES, COMPLEX_GRAM),
]  # fmt: skip
COMPLEX_VECTORS = written_out(_VECTORS, COMPLEX_GRAM)
COMPLEX_NUMBERS = written_out(_NUMBERS, COMPLEX_GRAM)
#: Arrays of zeros and of numbers, which can be written with complex values.
COMPLEX_CREATORS = [
    "np.zeros(3, complex)", "np.zeros((2, 3), complex)", "np.ones(4, dtype=complex)",
    "np.zeros_like({0})", "np.array([{1}, 1j * {1}])", "np.zeros_like({0}) + 0.3j",
    "np.full(3, {1} + 0.2j)", "np.array([[{1}, 0.5j], [0.2 - 1j, -{1}]])",
    "np.asarray([{1}, 0.2], dtype=complex)", "np.eye(3, dtype=complex) * {1}", "np.copy({0})",
    "np.array([t * 1j for t in {0}.reshape(-1)[:3]])",
]  # fmt: skip
#: Rounds of a loop that carries a complex number `zeta`; `const` is one, `{0}` real.
COMPLEX_ROUNDS = [
    "zeta = (zeta * zeta + const) / (1.0 + abs(zeta))",
    "zeta = 0.7 * zeta + 0.2 * np.exp(1j * {0})",
    "zeta = zeta * np.exp(0.1j * {0}) + 0.1 * const",
    "zeta = np.conj(zeta) * const / (1.0 + abs(const))",
    "zeta = np.sqrt(zeta + 2.5) * 0.5 + 0.1j * {0}",
    "zeta = zeta - (zeta * zeta - const) / (3.0 + abs(zeta) ** 2)",
    "zeta = complex(0.3, 0.4) * zeta + {0}",
    "zeta = np.where(abs(zeta) > 1.2, 0.5 * zeta, zeta + 0.2 * const)",
]
