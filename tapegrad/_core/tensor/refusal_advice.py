"""What works instead where a derivative would be lost: all advice of errors, by kind.

`tests/test_refusal_advice.py` runs what is advised.
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
_SPARSE = "use a @ t, or t * sparse.csr_array(a) with the recorded value first"
_DENSITY = "write the density with NumPy and scipy.special"
_MADE = "objects that tapegrad.scipy.stats makes keep it, in attributes and containers, too"
#: SciPy's functions without derivative, by name below `scipy`, or modules and classes of them.
OF_SCIPY = {
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
    **dict.fromkeys([f"optimize.{name}" for name in "fsolve root broyden1".split()], _OF_MANY),
    "optimize.fixed_point": _FIXED,
    **dict.fromkeys(
        [f"optimize.{name}" for name in "minimize least_squares leastsq curve_fit".split()],
        _MINIMUM,
    ),
    "optimize.minimize_scalar": _OF_NUMBER,
    **dict.fromkeys([f"integrate.{name}" for name in "quad quad_vec".split()], _NODES),
    **dict.fromkeys(["integrate.solve_ivp", "integrate.odeint", "integrate.ode"], _STEPS),
    "interpolate": _LINEAR,
    "sparse": _SPARSE,
    "spatial.distance": "for Euclidean distances write "
    "np.sqrt(np.sum((a[:, None] - b) ** 2, axis=-1))",
    **dict.fromkeys(["stats.distributions.rv_frozen", "stats.gaussian_kde"], _MADE),
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
