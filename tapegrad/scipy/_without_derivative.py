"""Why SciPy functions have no derivative here, and what to use instead."""

from __future__ import annotations

_FACTORS = "its factors are discontinuous where eigenvalues coincide"
_WHOLE = "differentiate the final result as a function of the matrix instead"

#: By name below `scipy`: a reason, which the error gives.
REASONS = {
    "linalg.funm": "it calls a user's function with eigenvalues; expm, logm, sqrtm, cosm, "
    "sinm, signm and fractional_matrix_power have derivatives",
    "linalg.expm_cond": "it is the largest of a matrix's singular values; expm_frechet has one",
    **dict.fromkeys(
        ["linalg.schur", "linalg.rsf2csf", "linalg.qz", "linalg.ordqz", "linalg.cdf2rdf"],
        f"{_FACTORS}; {_WHOLE}: sqrtm, logm, solve_sylvester have derivatives",
    ),
    "linalg.subspace_angles": "the ranks of its matrices are discontinuous; use np.linalg.svdvals "
    "of qᵀ p, with q and p of np.linalg.qr",
    "linalg.hessenberg": f"its factors are not unique; {_WHOLE}",
    "linalg.ldl": "its pivoting is discontinuous; use linalg.cholesky, lu or solve",
    "linalg.cossin": f"{_FACTORS}; use linalg.svd of a block",
    "linalg.matrix_balance": "its scales are powers of 2 and its permutation is discontinuous; "
    "both are piecewise constant: compute them from the detached matrix",
    **dict.fromkeys(
        ["linalg.qr_delete", "linalg.qr_insert", "linalg.qr_update", "linalg.qr_multiply"],
        "update the matrix and use np.linalg.qr of it",
    ),
    "linalg.clarkson_woodruff_transform": "it draws a random matrix; multiply by your own matrix",
}
