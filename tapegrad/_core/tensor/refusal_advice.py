"""What works instead where a derivative would be lost: all advice of errors, by kind.

`tests/entering/test_refusal_advice.py` runs what is advised.
"""

from __future__ import annotations

IMPORT = "`import tapegrad.numpy as np` in place of `import numpy as np`"
#: The end of each text: the value alone.
ARRAY_ALONE = "t.detach().numpy() if no derivative is needed"
NUMBER_ALONE = "tg.stop_gradient(t) for the number alone"

#: By what refuses, and what the code there has imported. `{}` is what it is about.
KINDS = {
    # float() and the like of a number
    "number": "use the tensor itself, NumPy's functions on it, or np.float64 and np.array of "
    "`import tapegrad.numpy as np`",
    "number beside the stand-in": "use np.float64(t), which keeps it, the tensor itself, or "
    "NumPy's functions",
    "number in entered code": "call float() and functions of math by their names: where one is "
    "stored or passed, give lambda v: math.sin(v), or NumPy's function, as np.sin",
    "number in a library": "use NumPy's functions on the tensor, or give the function a derivative "
    "with tg.autograd.Function",
    "math": "use {} on the tensor, or `import tapegrad.math as math`",
    "math in entered code": "call it by its name: where it is stored or passed, give "
    "lambda v: math.{1}(v), or {0}",
    "other math": "use `import tapegrad.math as math`",
    "other math in entered code": "call it by its name: where it is stored or passed, give a "
    "function of yours that calls math.{1}",
    "number in an extension": "it is compiled code: call it in `forward` of a "
    "tg.autograd.Function, whose `backward` has its derivative",
    "left out": "{0} is not entered, since {1}: enter=({0!r},) of the transform enters it",
    "in a package": "this is code of the package {}, whose functions are entered where they are "
    "called by their names, unless enter=() leaves them out; give the function that you call a "
    "derivative with tg.autograd.Function",
    # a plain array
    "array": f"{IMPORT} keeps it, in lists, conversions and arrays that are filled",
    "array beside the stand-in": "this function takes plain arrays: use operations on the tensor, "
    "or functions of tapegrad.numpy",
    "array in entered code": "call NumPy's functions by their names, np.array of a list too, not "
    "ones that are stored or passed",
    "dot": "a.dot(t) of a plain array does not dispatch: use a @ t or np.dot(a, t)",
    "container": "{}",
    # a write to a plain array
    "write": f"make the array with {IMPORT}, or with tg.zeros_like",
    "write beside the stand-in": "make the array inside the function with np.zeros, or copy it "
    "there with np.array(a)",
    "write outside of transforms": "make the array with tg.zeros: outside of transforms arrays of "
    "tapegrad.numpy are NumPy's",
    "complex write": "make the array with tg.zeros(…, dtype=complex)",
    # functions
    "package": "`from tapegrad.scipy import {}` has one that keeps it",
    "package in entered code": "call it by its name: one that is stored or passed is SciPy's own",
    "class in entered code": "objects that tapegrad.scipy.{} makes keep it, in attributes and "
    "containers, too",
    "sparse scaled": "write t * A in place of A * t, and (1.0 / t) * A in place of A / t",
    "not derived": "compute it with NumPy's functions on the tensor, or give it a derivative with "
    "tg.autograd.Function",
    "compiled code": "call the function without Numba, or declare its derivative: tg.elementwise "
    "for functions of numbers, tg.custom_vjp for those of arrays",
    "entered compiled code": "functions of numba.njit that are made outside of the differentiated "
    "one are differentiated too; write what guvectorize, stencil or jitclass made as one of these, "
    "or declare its derivative with tg.custom_vjp",
}

#: Objects that hold arrays, by their module.
HOLDERS = {
    "pandas": "pandas takes plain values: compute with the array, as in df.to_numpy() @ t",
    "xarray": "xarray takes plain values: compute with the array, as in data.values * t",
    "polars": "polars takes plain values: compute with the array, as in df.to_numpy() * t",
    "matplotlib": "Matplotlib draws plain values: draw t.detach().numpy()",
    "numpy.ma": "a masked array's mask would be ignored: use x.filled(value), or x.compressed()",
}

#: Functions of `math` by NumPy's names, or SciPy's, where those differ.
OF_MATH = dict(
    asin="np.arcsin",
    acos="np.arccos",
    atan="np.arctan",
    atan2="np.arctan2",
    asinh="np.arcsinh",
    acosh="np.arccosh",
    atanh="np.arctanh",
    pow="np.power",
    fsum="np.sum",
    sumprod="np.dot",
    dist="np.linalg.norm",
    erf="scipy.special.erf",
    erfc="scipy.special.erfc",
    lgamma="scipy.special.gammaln",
)

_COMPLEX = "complex numbers are not differentiated"
#: NumPy's functions without derivative: why, and what to use where there is something.
OF_NUMPY = {
    "roots": f"the roots may be complex, and {_COMPLEX}",
    "sort_complex": _COMPLEX,
    **dict.fromkeys("packbits unpackbits".split(), "it operates on integers"),
    **dict.fromkeys(
        "busday_count busday_offset datetime_as_string is_busday isnat".split(),
        "it operates on dates",
    ),
    **dict.fromkeys("bartlett blackman hamming hanning".split(), "its argument is a count"),
    **dict.fromkeys("tri tril_indices triu_indices".split(), "its arguments are counts"),
}

_FACTORS = "its factors are discontinuous where eigenvalues coincide"
_WHOLE = "differentiate the final result as a function of the matrix instead"
_STEP = "with q = tg.stop_gradient(p), then take one Newton step, which keeps the derivative: x - "
_OF_ONE = f"solve F(x, q) = 0 {_STEP}F(x, p) / tg.grad(F)(x, q); scipy.optimize.newton is recorded"
_OF_MANY = f"solve F(x, q) = 0 {_STEP}np.linalg.solve(tg.jacobian(F)(x, q), F(x, p))"
_FIXED = f"solve F(x, q) = x - g(x, q) = 0 {_STEP}F(x, p) / tg.grad(F)(x, q)"
_MINIMUM = f"minimize f(x, q) {_STEP}np.linalg.solve(tg.hessian(f)(x, q), tg.grad(f)(x, p))"
_OF_NUMBER = f"minimize f(x, q) {_STEP}tg.grad(f)(x, p) / tg.grad(tg.grad(f))(x, q)"
_NODES = "sum over nodes, s, w = np.polynomial.legendre.leggauss(n), or call integrate.fixed_quad "
_NODES += "where it is entered"
_STEPS = "write the steps with NumPy, such as a loop of Runge-Kutta steps, which is recorded"
_LINEAR = "CubicSpline, make_interp_spline and others alike have derivatives"
_COUNTS = "its arguments are counts"
_NAMES_ONE = "it looks up a name or a setting"
_PLAIN_RESULT = "its result is of whole numbers or truth values"
_OF_YOURS = "it calls a function of yours with plain windows; write it with NumPy's functions"
_SETTLES = "it iterates until a result is close; detach its arguments"
_ACTIVE = "its solution is where some constraints are active: solve their equations as a function "
_ACTIVE += "of the recorded values, with np.linalg.solve"
_SPARSE_EIGEN = "use linalg.eigh or linalg.svd of A.toarray()"
_DRAWS = "it draws random numbers; draw them with plain arguments, and move them"
_MERGES = (
    "which clusters are merged is an answer: give plain data, and compute the distances of the "
)
_MERGES += "pairs that it names with spatial.distance"
_MASKED = "it computes with masked arrays, whose masks would be lost; scipy.stats has most of these"
_SEARCHES = (
    "it searches for the best value; minimize the negative log likelihood, with its gradient"
)
_SPARSE = "use a @ t, or t * sparse.csr_array(a) with the recorded value first"
_DENSITY = "write the density with NumPy and scipy.special"
_MADE = "objects that tapegrad.scipy.stats makes keep it, in attributes and containers, too"


def _named(module: str, names: str, reason: str) -> dict[str, str]:
    return {f"{module}.{name}": reason for name in names.split()}


#: SciPy's functions without derivative, by name below `scipy`, or modules and classes of them.
OF_SCIPY = {
    "cluster.hierarchy": _MERGES,
    **_named("cluster.vq", "kmeans kmeans2", _SETTLES),
    **_named("constants", "find precision unit value", _NAMES_ONE),
    "differentiate": "use tg.grad, tg.jacobian or tg.hessian, which can be differentiated, too",
    **_named("fft", "get_workers register_backend set_backend set_global_backend", _NAMES_ONE),
    **_named("fft", "set_workers skip_backend", _NAMES_ONE),
    **_named("fft", "next_fast_len prev_fast_len", _COUNTS),
    "fft.fhtoffset": "it takes the gamma function of complex numbers; give plain numbers",
    **_named("linalg", "dft hadamard helmert hilbert invhilbert invpascal pascal", _COUNTS),
    **_named("linalg", "find_best_blas_type get_blas_funcs get_lapack_funcs", _NAMES_ONE),
    "linalg.rq": "use q, r = np.linalg.qr(a[::-1].T) of the rows in reverse order",
    "linalg.interpolative": "its columns are chosen at random or by pivots; use np.linalg.svd",
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
    **dict.fromkeys(
        [f"optimize.{name}" for name in "brentq brenth bisect ridder toms748 root_scalar".split()],
        _OF_ONE,
    ),
    **_named("optimize", "fsolve root broyden1 broyden2 anderson diagbroyden", _OF_MANY),
    **_named("optimize", "excitingmixing linearmixing newton_krylov", _OF_MANY),
    "optimize.fixed_point": _FIXED,
    **dict.fromkeys(
        [f"optimize.{name}" for name in "minimize least_squares leastsq curve_fit".split()],
        _MINIMUM,
    ),
    **_named("optimize", "fmin fmin_bfgs fmin_cg fmin_cobyla fmin_l_bfgs_b fmin_ncg", _MINIMUM),
    **_named("optimize", "fmin_powell fmin_slsqp fmin_tnc basinhopping brute direct", _MINIMUM),
    **_named("optimize", "differential_evolution dual_annealing shgo", _MINIMUM),
    **_named("optimize", "minimize_scalar fminbound brent golden", _OF_NUMBER),
    **_named("optimize", "linprog lsq_linear milp nnls isotonic_regression", _ACTIVE),
    **_named("optimize", "linear_sum_assignment quadratic_assignment", _PLAIN_RESULT),
    **_named("optimize", "approx_fprime check_grad", "use tg.grad"),
    **_named("optimize", "show_options linprog_verbose_callback", _NAMES_ONE),
    **_named("optimize", "bracket line_search", _SETTLES),
    **_named("integrate", "quad quad_vec cubature dblquad nquad tplquad", _NODES),
    **_named("integrate", "tanhsinh qmc_quad nsum", _NODES),
    **_named("integrate", "lebedev_rule newton_cotes", _COUNTS),
    "integrate.solve_bvp": _SETTLES,
    **dict.fromkeys(["integrate.solve_ivp", "integrate.odeint", "integrate.ode"], _STEPS),
    "interpolate": _LINEAR,
    **_named("ndimage", "generic_filter generic_filter1d vectorized_filter", _OF_YOURS),
    "ndimage.labeled_comprehension": _OF_YOURS,
    "ndimage": _PLAIN_RESULT,
    **_named("signal", "besselap buttap correlation_lags max_len_seq unit_impulse", _COUNTS),
    **_named("signal", "place_poles remez", _SETTLES),
    "signal.choose_conv_method": "its result is a name",
    "signal.windows": _COUNTS,
    **_named("sparse", "eye eye_array identity get_index_dtype", _COUNTS),
    **_named("sparse", "rand random random_array", _DRAWS),
    "sparse.find": "use A.tocoo(), whose data has a derivative",
    "sparse.csgraph": "which edges are taken is an answer: give plain weights, and sum the "
    "recorded ones of the edges that it names",
    **_named("sparse.linalg", "eigs eigsh lobpcg svds", _SPARSE_EIGEN),
    **_named("sparse.linalg", "expm inv norm", "use the function of scipy.linalg of A.toarray()"),
    **_named("sparse.linalg", "lsqr lsmr", "use spsolve(A.T @ A, A.T @ b)"),
    **_named("sparse.linalg", "is_sptriangular spbandwidth onenormest", _PLAIN_RESULT),
    "sparse": _SPARSE,
    **_named("spatial", "convex_hull_plot_2d delaunay_plot_2d voronoi_plot_2d", "it draws"),
    "spatial.tsearch": _PLAIN_RESULT,
    **_named("spatial.distance", "dice jaccard rogerstanimoto russellrao", "it is of truth values"),
    **_named("spatial.distance", "sokalsneath yule", "it is of truth values"),
    **_named("spatial.distance", "is_valid_dm is_valid_y num_obs_dm num_obs_y", _PLAIN_RESULT),
    "spatial.distance": "for Euclidean distances write "
    "np.sqrt(np.sum((a[:, None] - b) ** 2, axis=-1))",
    **dict.fromkeys(["stats.distributions.rv_frozen", "stats.gaussian_kde"], _MADE),
    **_named("stats", "boxcox_normmax yeojohnson_normmax ppcc_max fit", _SEARCHES),
    **_named("stats", "bootstrap monte_carlo_test permutation_test goodness_of_fit", _DRAWS),
    **_named("stats", "multiscale_graphcorr sobol_indices bws_test dunnett", _DRAWS),
    **_named("stats", "barnard_exact boschloo_exact fisher_exact poisson_means_test", _COUNTS),
    **_named("stats", "anderson_ksamp ecdf logrank", "it is of ranks, which are steps"),
    "stats.anderson": "it fits the parameters; write the statistic with the distribution's logcdf",
    "stats.cramervonmises": "its p-value is a series without an end; write the statistic with "
    "the distribution's cdf",
    "stats.tukey_hsd": "its p-value is a quadrature; write the statistic with np.mean and np.var",
    "stats.wasserstein_distance_nd": _ACTIVE,
    "stats.contingency": _COUNTS,
    "stats.mstats": _MASKED,
    "stats.qmc.update_discrepancy": "call stats.qmc.discrepancy of all points",
    "stats.qmc": _DRAWS,
    "stats": _DENSITY,
}


def of_scipy(name: str) -> str:
    """What to do in place of one of SciPy's functions, by its name below `scipy`."""
    place = name
    while place:
        if place in OF_SCIPY:
            return OF_SCIPY[place]
        place = place.rpartition(".")[0]
    return KINDS["not derived"]
