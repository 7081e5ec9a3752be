"""Functions of tensors, each family in a file; importing them registers them."""

from ..tensor import conversions, operators, plain_data  # noqa: F401
from ..tensor.registry import LATE, PUBLIC
from . import (  # noqa: F401
    answers,
    array_methods,
    choosing,
    complex_methods,
    creation,
    cumulative,
    declaring,
    einsum,
    elementwise_functions,
    extremes,
    filling,
    float_parts,
    holomorphic,
    joining,
    like_arguments,
    linear_algebra,
    logsumexp,
    named_values,
    nan_reductions,
    numpy_protocols,
    pickling,
    products,
    reductions,
    shapes,
    special_results,
    triangles,
    vector_products,
)

__all__ = ["PUBLIC"]

#: Families that are imported on first use, with the public names of their functions.
_ON_FIRST_USE = {
    "banded_equations": "",
    "conditions": "cond matrix_rank",
    "convolving": "convolve correlate",
    "cosine_transforms": "",
    "counting": "bincount",
    "covariance": "cov corrcoef",
    "determinants": "det slogdet",
    "factors": "cholesky",
    "fourier_transforms": (
        "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fft2 ifft2 rfft2 irfft2 "
        "fftshift ifftshift"
    ),
    "general_eigenvalues": "eig eigvals",
    "grids": "meshgrid ix_ block resize",
    "histograms": "histogram histogram_bin_edges histogramdd histogram2d",
    "inserting": "insert delete trim_zeros",
    "image_filters": "",
    "interpolation": "interp unwrap angle",
    "inverses": "inv tensorsolve tensorinv",
    "least_squares": "lstsq",
    "matrix_functions": "",
    "matrix_logarithm": "",
    "moving_means": "",
    "norms": "norm vector_norm matrix_norm",
    "orthogonal_factors": "qr",
    "padding": "pad",
    "piecewise_polynomials": "",
    "pivoted_factors": "",
    "polar_factors": "",
    "polynomials": (
        "polyval polyadd polysub polymul polydiv polyder polyint poly roots vander polyfit"
    ),
    "product_chains": "matrix_power multi_dot",
    "pseudo_inverses": "pinv",
    "quantiles": "quantile percentile nanquantile nanpercentile partition",
    "recursions": "",
    "riccati": "",
    "sets": (
        "unique unique_all unique_counts unique_inverse unique_values union1d setxor1d "
        "setdiff1d intersect1d"
    ),
    "singular_values": "svd svdvals",
    "slicewise": "apply_along_axis apply_over_axes",
    "softmax": "softmax log_softmax",
    "solving": "solve",
    "pair_distances": "",
    "sparse_products": "",
    "sparse_solving": "",
    "spacing": "gradient ediff1d",
    "spline_filters": "",
    "sylvester": "",
    "symmetric_eigenvalues": "eigh eigvalsh",
    "tapers": "kaiser",
    "toeplitz_equations": "",
    "triangular_equations": "",
}
LATE.update({f"{__name__}.{family}": (*names.split(),) for family, names in _ON_FIRST_USE.items()})
