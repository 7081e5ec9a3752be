"""Functions of tensors, each family in a file; importing them registers them."""

from ..tensor import conversions, operators, plain_data  # noqa: F401
from ..tensor.registry import LATE, PUBLIC
from . import (  # noqa: F401
    array_methods,
    complex_methods,
    creation,
    cumulative,
    declaring,
    einsum,
    elementwise_functions,
    inplace_functions,
    joining,
    linear_algebra,
    logsumexp,
    nan_reductions,
    numpy_protocols,
    reductions,
    shapes,
    sorting,
    without_derivative,
)

__all__ = ["PUBLIC"]

#: Families that are imported on first use, with the public names of their functions.
_ON_FIRST_USE = {
    "apply_along_axis": "apply_along_axis apply_over_axes",
    "convolving": "convolve correlate kaiser",
    "determinants": "det slogdet",
    "fourier_rows": "",
    "fourier_transforms": (
        "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fft2 ifft2 rfft2 irfft2 "
        "fftshift ifftshift"
    ),
    "general_eigenvalues": "eig eigvals",
    "image_filters": "",
    "interpolation": "interp unwrap angle gradient ediff1d",
    "inverses": "inv tensorsolve tensorinv matrix_power multi_dot pinv",
    "least_squares": "lstsq",
    "matrix_functions": "",
    "norms": "cond matrix_rank norm vector_norm matrix_norm",
    "padding": "meshgrid ix_ block resize insert delete trim_zeros pad",
    "pair_distances": "",
    "polynomials": (
        "polyval polyadd polysub polymul polydiv polyder polyint poly roots vander polyfit"
    ),
    "quantiles": "quantile percentile nanquantile nanpercentile partition",
    "sets": (
        "unique unique_all unique_counts unique_inverse unique_values union1d setxor1d "
        "setdiff1d intersect1d bincount cov corrcoef histogram histogram_bin_edges histogramdd "
        "histogram2d"
    ),
    "singular_values": "qr svd svdvals",
    "softmax": "softmax log_softmax",
    "solving": "solve",
    "sparse_products": "",
    "sylvester": "",
    "symmetric_eigenvalues": "eigh eigvalsh",
    "triangular_factors": "cholesky",
}
LATE.update({f"{__name__}.{family}": (*names.split(),) for family, names in _ON_FIRST_USE.items()})
