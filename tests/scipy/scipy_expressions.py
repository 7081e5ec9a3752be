"""Expressions of SciPy's public names, each a function of `scipy` or `tapegrad.scipy` and a vector.

Those of `stats` and `signal` are the ones of their own tests; those of ufuncs follow their
declarations.
"""

import importlib
import re
import types

import numpy as np
import scipy.stats
import test_scipy_copied
import test_scipy_released
import test_scipy_signal_table
import test_scipy_statistics
import test_special_functions

from tapegrad._core.ops.table import TABLE, Pointwise

#: Nine numbers of which no two are close.
X = np.array([1.31, 0.52, 1.83, 0.94, 1.12, 0.71, 1.64, 0.43, 1.97])
I3, J3, V = np.array([0, 1, 2]), np.array([1, 0, 2]), np.array([0.7, -1.2, 0.4])
T, Q = np.arange(9.0), np.array([2.3, 0.4, 5.7, 7.1])
KNOTS = np.r_[[0.0] * 4, 2.0, 4.0, 6.0, [8.0] * 4]
XX, YY = np.meshgrid(np.arange(3.0), np.arange(3.0), indexing="ij")
PLANE = np.array([[0.1, 0.2], [1.3, 0.1], [0.4, 1.5], [1.2, 1.1], [0.6, 0.7], [2.1, 0.3]])
LABELS = np.array([[1, 1, 2], [0, 2, 2], [1, 0, 2]])
HERMITE = np.cos(T)


def helpers(x):
    """What expressions name besides a module's functions."""
    square = x.reshape(3, 3)
    full, wide = square + np.diag([3.0, 4.0, 5.0]), x[:6].reshape(2, 3)
    even = full @ full.T
    quarter = x[:4].reshape(2, 2)
    return {"x": x, "m": square, "F": full, "P": even, "W": wide, "S": quarter}


class Names(dict):
    """The names of an expression: helpers, and the functions of a module."""

    def __init__(self, module, x):
        super().__init__(helpers(x) | CONSTANTS)
        self._module = module

    def __missing__(self, name):
        if hasattr(self._module, name):
            return getattr(self._module, name)
        raise KeyError(name)


def valley(x):
    return lambda s: np.sum(np.cosh(s - x[:2]) * x[2:4])


def slope(x):
    return lambda s: np.sinh(s - x[:2]) * x[2:4]


def quartic(x):
    """A function to be minimised, with its gradient."""
    return lambda s: (np.sum((s - x[:2]) ** 4), 4.0 * (s - x[:2]) ** 3)


CONSTANTS = dict(valley=valley, slope=slope, quartic=quartic)
CONSTANTS |= dict(I3=I3, J3=J3, V=V, T=T, Q=Q, KNOTS=KNOTS, XX=XX, YY=YY, PLANE=PLANE)
CONSTANTS |= dict(LABELS=LABELS, H=HERMITE, HALTON=scipy.stats.qmc.Halton)
#: By modules: expressions of a call of each name, or the name, a colon and an expression.
TEXTS = {
    "cluster.vq": """
        vq(m, m[:2] + 0.3)
        whiten(m)
    """,
    "constants": """
        convert_temperature(x, 'C', 'F')
        lambda2nu(x)
        nu2lambda(x)
    """,
    "fft": """
        dct(x)
        dctn(m)
        dst(x)
        dstn(m)
        fft(x)
        fft2(m)
        fftfreq(5, x[0])
        fftn(m)
        fftshift(x)
        fht(x[:8], 0.1, 0.5)
        hfft(x)
        hfft2(m)
        hfftn(m)
        idct(x)
        idctn(m)
        idst(x)
        idstn(m)
        ifft(x)
        ifft2(m)
        ifftn(m)
        ifftshift(x)
        ifht(x[:8], 0.1, 0.5)
        ihfft(x)
        ihfft2(m)
        ihfftn(m)
        irfft(x)
        irfft2(m)
        irfftn(m)
        rfft(x)
        rfft2(m)
        rfftfreq(5, x[0])
        rfftn(m)
    """,
    "integrate": """
        cumulative_simpson(x, x=np.cumsum(x))
        cumulative_simpson(m, dx=0.3, axis=0, initial=0.0)
        cumulative_trapezoid(x, dx=0.3)
        fixed_quad(lambda t, p: np.exp(-p * t), 0.0, 2.0, (x[0],), 4)[0]
        cubature(lambda s, p: np.exp(-p * s[:, 0]), [0.0, 0.0], [x[1], 1.0], args=(x[0],)).estimate
        dblquad(lambda u, t, p: p * u * t, 0.0, x[1], 0.0, lambda t: t, (x[0],))[0]
        nquad(lambda u, t, p: p * u * t, [[0.0, x[1]], [0.0, 1.0]], args=(x[0],))[0]
        nsum(lambda k, p: p**-k, 1.0, np.inf, args=(1.0 + x,)).sum
        qmc_quad(lambda s: s[0] * s[1], [0.0, 0.0], x[:2], qrng=HALTON(2, seed=1)).integral
        quad(lambda t, p: np.exp(-p * t), 0.0, x[1], (x[0],))[0]
        quad_vec(lambda t, p: np.exp(-p * t), 0.0, 1.0, args=(x,))[0]
        odeint(lambda y, t: -x[:2] * y, x[3:5], [0.0, 1.0], rtol=1e-11, atol=1e-12)[-1]
        romb(x, dx=0.3)
        romb(m, axis=0)
        simpson(x, x=np.cumsum(x))
        solve_bvp(lambda t, y: -x[0] * y, lambda a, b: a - x[1], T, np.ones((1, 9))).y[0]
        solve_ivp(lambda t, y: -x[:2] * y, (0, 1), x[3:5], "DOP853", rtol=1e-11).y[:, -1]
        tplquad(lambda v, u, t, p: p * v, 0.0, x[1], 0.0, 1.0, 0.0, 1.0, (x[0],))[0]
        tanhsinh(lambda t, p: np.exp(-p * t), 0.0, x[1], args=(x,)).integral
        trapezoid(x, dx=0.3)
    """,
    "interpolate": """
        Akima1DInterpolator(T, x)(Q)
        BPoly(x[:6].reshape(3, 2), [0.0, 2.0, 4.0])([1.3, 2.2])
        BSpline(KNOTS, x[:7], 3)(Q)
        BarycentricInterpolator(T[:5], x[:5])(Q[:2])
        CubicHermiteSpline(T, x, H)(Q)
        CubicSpline(T, x)(Q)
        InterpolatedUnivariateSpline(T, x)(Q)
        KroghInterpolator(T[:5], x[:5])(Q[:2])
        LSQUnivariateSpline(T, x, [4.0])(Q)
        LinearNDInterpolator(PLANE, x[:6])([[0.7, 0.6]])
        LSQBivariateSpline(XX.ravel(), YY.ravel(), T, [1.0], [1.0], kx=1, ky=1)(x[0], x[1])
        SmoothBivariateSpline(XX.ravel(), YY.ravel(), T, kx=1, ky=1)(x[0], x[1])
        NdBSpline(([0.0, 0.0, 1.0, 1.0],) * 2, x[:4].reshape(2, 2), 1)([[0.3, 0.4]])
        NearestNDInterpolator(PLANE, x[:6])([[0.7, 0.6]])
        PPoly(x[:6].reshape(3, 2), [0.0, 2.0, 4.0])([1.3, 2.2])
        PchipInterpolator(T, x)(Q)
        RBFInterpolator(PLANE, x[:6])([[0.7, 0.6]])
        RectBivariateSpline(T[:3], T[:3], m, kx=2, ky=2)(0.7, 1.2)
        RegularGridInterpolator((T[:3], T[:3]), m)([[0.7, 1.2]])
        UnivariateSpline(T, x, s=0)(Q)
        barycentric_interpolate(T[:5], x[:5], Q[:2])
        bisplev(0.3, 0.4, ([0.0, 0.0, 1.0, 1.0],) * 2 + (x[:4], 1, 1))
        griddata(PLANE, x[:6], [[0.7, 0.6]], method='linear')
        interp1d(T, x, kind='quadratic')(Q)
        interpn((T[:3], T[:3]), m, [[0.7, 1.2]])
        krogh_interpolate(T[:5], x[:5], Q[:2])
        lagrange(T[:4], x[:4])(1.3)
        lagrange(np.cumsum(x[:4]), x[4:8])(2.3)
        make_interp_spline(T, x)(Q)
        make_lsq_spline(T, x, KNOTS)(Q)
        make_smoothing_spline(T, x, lam=0.7)(Q)
        make_splprep([x, x[::-1]], s=0)[0](0.3)
        make_splrep(T, x, s=0)(Q)
        pade: pade(x[:6], 2)[0](0.4) / pade(x[:6], 2)[1](0.4)
        pchip_interpolate(T, x, Q)
        spalde([1.3, 4.2], (KNOTS, x, 3))[0]
        splantider: splev(Q, splantider((KNOTS, np.concatenate([x, x[:2]]), 3)))
        splder: splev(Q, splder((KNOTS, np.concatenate([x, x[:2]]), 3)))
        splev(Q, (KNOTS, np.concatenate([x, x[:2]]), 3))
        splint(0.3, 4.2, (KNOTS, np.concatenate([x, x[:2]]), 3))
        splprep([x, x[::-1]], s=0)[1]
        splrep(T, x)[1]
    """,
    "linalg": """
        bandwidth(F)
        block_diag(F, W)
        cho_factor(P)[0]
        cho_solve(cho_factor(P), V)
        cho_solve_banded((np.stack([x[:3] * 0.1, x[3:6] + 2.0]), False), V)
        cholesky(P)
        cholesky_banded(np.stack([x[:3] * 0.1, x[3:6] + 2.0]))
        circulant(x[:3])
        companion(x[:4])
        convolution_matrix(x[:3], 4)
        coshm(F)
        cosm(F)
        det(F)
        diagsvd(x[:2], 2, 3)
        eig(F)[0]
        eig_banded(np.stack([x[:4], x[4:8]]))[1]
        eig_banded(np.stack([x[:4], x[4:8]]), lower=True, select='i', select_range=(1, 2))[0]
        eigh(P)[0]
        eigh_tridiagonal(x[:5], x[5:])[1] ** 2
        eigh_tridiagonal(x[:5], x[5:], select='i', select_range=(0, 2))[1]
        eigvals(F)
        eigvals_banded(np.stack([x[:4], x[4:8]]), select='v', select_range=(0.0, 9.0))
        eigvalsh(P)
        eigvalsh_tridiagonal(x[:5], x[5:])
        expm(F)
        expm_frechet(F, m)[1]
        fiedler(x[:3])
        fiedler_companion(x[:4])
        fractional_matrix_power(P, 0.3)
        hankel(x[:3], x[2:5])
        inv(F)
        ishermitian(F)
        issymmetric(F)
        khatri_rao(m, W)
        leslie(x[:3], x[3:5])
        logm(P)
        lstsq(W.T, V)[0]
        lu(F)[2]
        lu_factor(F)[0]
        lu_solve(lu_factor(F), V)
        matmul_toeplitz(x[:3], V)
        norm(F)
        null_space: abs(null_space(W))
        orth: orth(W.T) @ orth(W.T).T
        orthogonal_procrustes(m, F)[0]
        pinv(W)
        pinvh(P)
        polar(F)[0]
        qr(F)[1]
        signm(F)
        sinhm(F)
        sinm(F)
        solve(F, V)
        solve_banded((1, 1), np.stack([x[:3], x[3:6] + 4.0, x[6:]]), V)
        solve_circulant(x[:3] + [3.0, 0.0, 0.0], V)
        solve_continuous_are(F, P, P, P)
        solve_continuous_lyapunov(F, P)
        solve_discrete_are(F * 0.1, P, P, P)
        solve_discrete_lyapunov(F * 0.1, P)
        solve_lyapunov(F, P)
        solve_sylvester(F, P, m)
        solve_toeplitz(x[:3] + [3.0, 0.0, 0.0], V)
        solve_triangular(F, V, lower=True)
        solveh_banded(np.stack([x[:3] * 0.1, x[3:6] + 2.0]), V)
        sqrtm(P)
        svd(F)[1]
        svdvals(F)
        tanhm(F)
        tanm(F * 0.1)
        toeplitz(x[:3], x[3:6])
    """,
    "ndimage": """
        affine_transform(m, [[0.9, 0.1], [0.0, 1.1]], order=1)
        black_tophat(m, 2)
        center_of_mass(m, LABELS, 1)
        convolve(m, S)
        convolve1d(m, V)
        correlate(m, S)
        correlate1d(m, V)
        extrema(m, LABELS, [1, 2])[:2]
        fourier_ellipsoid(m, 2.0)
        fourier_gaussian(m, 0.7)
        fourier_shift(m, 0.7)
        fourier_uniform(m, 2.0)
        gaussian_filter(m, 0.7)
        gaussian_filter1d(m, 0.7)
        gaussian_gradient_magnitude(m, 0.7)
        gaussian_laplace(m, 0.7)
        generic_gradient_magnitude: generic_gradient_magnitude(m, sobel)
        generic_laplace: generic_laplace(m, prewitt)
        grey_closing(m, 2)
        grey_dilation(m, 2)
        grey_erosion(m, 2)
        grey_opening(m, 2)
        laplace(m)
        map_coordinates(m, [[0.3, 1.4], [1.2, 0.6]])
        maximum(m, LABELS, [1, 2])
        maximum_filter(m, 2)
        maximum_filter1d(m, 2)
        maximum_position(m, LABELS, [1, 2])
        mean(m, LABELS, [1, 2])
        median(m, LABELS, [1, 2])
        median_filter(m, 3)
        minimum(m, LABELS, [1, 2])
        minimum_filter(m, 2)
        minimum_filter1d(m, 2)
        minimum_position(m, LABELS, [1, 2])
        morphological_gradient(m, 2)
        morphological_laplace(m, 2)
        percentile_filter(m, 40, 3)
        prewitt(m)
        rank_filter(m, 2, 3)
        rotate(m, 20.0, order=1)
        shift(m, 0.3)
        sobel(m)
        spline_filter(m)
        spline_filter1d(m)
        standard_deviation(m, LABELS, [1, 2])
        sum(m, LABELS, [1, 2])
        sum_labels(m, LABELS, [1, 2])
        uniform_filter(m, 2)
        uniform_filter1d(m, 2)
        variance(m, LABELS, [1, 2])
        white_tophat(m, 2)
        zoom(m, 1.4, order=1)
    """,
    "optimize": """
        anderson(lambda s: s**3 + x[:3] * s - x[3:6], np.full(3, 0.7), f_tol=1e-13)
        basinhopping(valley(x), V[:2], 1, rng=1).fun
        bisect(lambda s: s**3 + x[0] * s - x[1], -5.0, 5.0)
        brent(lambda s: np.cosh(s - x[0]) + x[1] * s**2, full_output=True)[1]
        brenth(lambda s, p: s**3 + p[0] * s - p[1], -5.0, 5.0, (x,))
        brentq(lambda s, p: s**3 + p[0] * s - p[1], -5.0, 5.0, (x,))
        broyden1(lambda s: s**3 + x[:3] * s - x[3:6], np.full(3, 0.7), f_tol=1e-13)
        broyden2(lambda s: s**3 + x[:3] * s - x[3:6], np.full(3, 0.7), f_tol=1e-13)
        curve_fit(lambda t, a, b: a + b * t, T, x, jac=lambda t, *_: np.stack([t**0, t], 1))[0]
        diagbroyden(lambda s: 0.3 * np.cos(x[:3] * s) - s, np.ones(3), f_tol=1e-13)
        differential_evolution(lambda s: np.sum((s - x[:2])**4), [(0.0, 0.3)] * 2, rng=1).fun
        dual_annealing(lambda s: np.sum((s - x[:2])**4), [(0.0, 0.3)] * 2, maxiter=9, rng=1).fun
        excitingmixing(lambda s: 0.3 * np.cos(x[:3] * s) - s, np.ones(3), f_tol=1e-13)
        fixed_point(lambda s: 0.3 * np.cos(x[0] * s) + x[1], 0.7)
        fmin(valley(x), V[:2], (), 1e-8, 1e-15, disp=0, full_output=True)[1]
        fmin_bfgs(valley(x), V[:2], disp=0, full_output=1)[1]
        fmin_cg(valley(x), V[:2], disp=0, full_output=1)[1]
        fmin_cobyla(lambda s: s.sum(), V[:2], [lambda s: s - x[:2]], rhoend=1e-12, catol=0)
        fmin_l_bfgs_b(quartic(x), V[:2], bounds=[(0, 0.3)] * 2)[1]
        fmin_ncg(valley(x), V[:2], slope(x), disp=0, full_output=1)[1]
        fmin_powell(valley(x), V[:2], disp=0, full_output=1)[1]
        fmin_slsqp(valley(x), V[:2], fprime=slope(x), acc=1e-15, disp=0)
        fmin_tnc(quartic(x), V[:2], bounds=[(0, x[7]), (0, 0.3)], disp=0)[0]
        fminbound(lambda s: np.cosh(s - x[0]) + x[1] * s**2, -1.0, 3.0, full_output=True)[1]
        fsolve(lambda s: s**3 + x[:3] * s - x[3:6], np.full(3, 0.7), xtol=1e-12)
        golden(lambda s: np.cosh(s - x[0]) + x[1] * s**2, full_output=True)[1]
        isotonic_regression(x).x
        least_squares(lambda s: W.T @ s - V, [0.1, 0.2], lambda s: W.T).x
        leastsq(lambda s: W.T @ s - V, [0.1, 0.2], (), lambda s: W.T)[0]
        linearmixing(lambda s: 0.3 * np.cos(x[:3] * s) - s, np.ones(3), f_tol=1e-13, alpha=0.9)
        linprog(-x[:3], m, x[3:6] + 1.0).fun
        lsq_linear(W.T, V, (0.0, np.inf)).x
        minimize(valley(x), V[:2]).fun
        minimize_scalar(lambda s: np.cosh(s - x[0]) + x[1] * s**2).fun
        newton(lambda s: s**3 + x[0] * s - x[1], 0.5)
        newton_krylov(lambda s: s**3 + x[:3] * s - x[3:6], np.full(3, 0.7), f_tol=1e-13)
        nnls(W.T, V)[0]
        ridder(lambda s: s**3 + x[0] * s - x[1], -5.0, 5.0)
        root(lambda s: s**3 + x[:3] * s - x[3:6], np.full(3, 0.7), tol=1e-12).x
        root_scalar(lambda s: s**3 + x[0] * s - x[1], bracket=(-5.0, 5.0)).root
        shgo(lambda s: np.sum((s - x[:2])**4), [(0.0, 0.3)] * 2).fun
        toms748(lambda s: s**3 + x[0] * s - x[1], -5.0, 5.0)
        rosen(x)
        rosen(m)
        rosen_der(x)
        rosen_hess(x)
        rosen_hess_prod(x, x[::-1])
    """,
    "sparse": """
        block_array([[csr_array((x[:3], (I3, J3))), coo_array((x[3:6], (I3, I3)))]]) @ T[:6]
        block_diag((csr_array((x[:3], (I3, J3))), m)) @ T[:6]
        bmat([[csr_array((x[:3], (I3, J3))), coo_array((x[3:6], (I3, I3)))]]) @ T[:6]
        bsr_array((x[:8].reshape(2, 2, 2), [1, 0], [0, 1, 2])) @ T[:4]
        bsr_matrix((x[:8].reshape(2, 2, 2), [1, 0], [0, 1, 2])) @ T[:4]
        coo_array((x[:3], (I3, J3))) @ V
        coo_matrix((x[:3], (I3, J3))) @ V
        csc_array((x[:3], (I3, J3))) @ V
        csc_matrix((x[:3], (I3, J3))) @ V
        csr_array((x[:3], (I3, J3))) @ V
        csr_matrix((x[:3], (I3, J3))) @ V
        dia_array((W, [0, 1]), shape=(3, 3)) @ V
        dok_array: written(dok_array((3, 3)), x) @ V
        dok_matrix: written(dok_matrix((3, 3)), x) @ V
        lil_array: written(lil_array((3, 3)), x) @ V
        lil_matrix: written(lil_matrix((3, 3)), x) @ V
        dia_matrix((W, [0, 1]), shape=(3, 3)) @ V
        diags([x[:3], x[3:5]], [0, 1]) @ V
        diags_array([x[:3], x[3:5]], offsets=[0, 1]) @ V
        hstack([csr_array((x[:3], (I3, J3))), coo_array((x[3:6], (I3, I3)))]) @ T[:6]
        issparse(csr_array((x[:3], (I3, J3))))
        kron(csr_array((x[:3], (I3, J3))), S) @ T[:6]
        kronsum(csr_array((x[:3], (I3, J3))), S) @ T[:6]
        permute_dims(csr_array((x[:3], (I3, J3)))) @ V
        spdiags(W, [0, 1], 3, 3) @ V
        tril(csr_array((x[:3], (I3, J3)))) @ V
        triu(csr_array((x[:3], (I3, J3)))) @ V
        vstack([csr_array((x[:3], (I3, J3))), coo_array((x[3:6], (I3, I3)))]) @ V
    """,
    "signal": """
        convolve(x, V)
        convolve2d(m, S)
        correlate(x, V)
        correlate2d(m, S)
        detrend(x)
        ellipap(2, x[0], 20.0 + x[1])
        fftconvolve(x, V)
        filtfilt([1.0, 0.3], [1.0, 0.2], x)
        findfreqs(x[:2], x[2:4], 5)
        hilbert(x)
        hilbert2(m)
        lfilter([1.0, 0.3], [1.0, 0.2], x)
        oaconvolve(x, V)
        sosfiltfilt([[0.2, 0.4, 0.2, 1.0, -0.3, 0.1]], np.concatenate([x, x]))
        unique_roots(x[:3] * 0.0001 + np.array([1.0, 1.0, 3.0]), 0.1)[0]
        unique_roots(x[:3] * 0.0001 + np.array([1.0, 1.0, 3.0]), 0.1, 'min')[0]
        unique_roots(x[:4])
    """,
    "signal.windows": """
        dpss(11, 1.0 + x[0])
        dpss(8, 2.0, 2, norm=2)
        dpss(8, 1.0 + x[0], 2, sym=False, return_ratios=True)[1]
    """,
    "spatial": """
        KDTree(m).query([[1.0, 1.0, 1.0]])[0]
        cKDTree(m).query([[1.0, 1.0, 1.0]])[0]
        distance_matrix(m, W)
        geometric_slerp([1.0, 0.0], [0.0, 1.0], x[:3] / 2.0)
        minkowski_distance(m, V)
        minkowski_distance_p(m, V)
        procrustes(PLANE[:4], x[:8].reshape(4, 2))[2]
    """,
    "spatial.distance": """
        braycurtis(x[:3], x[3:6])
        canberra(x[:3], x[3:6])
        cdist(m, W)
        chebyshev(x[:3], x[3:6])
        cityblock(x[:3], x[3:6])
        correlation(x[:3], x[3:6])
        cosine(x[:3], x[3:6])
        directed_hausdorff(m, W)[0]
        euclidean(x[:3], x[3:6])
        hamming(x[:3], x[3:6])
        jensenshannon(x[:3], x[3:6])
        mahalanobis(x[:3], x[3:6], P)
        minkowski(x[:3], x[3:6], 3)
        pdist(m)
        seuclidean(x[:3], x[3:6], x[6:])
        sqeuclidean(x[:3], x[3:6])
        squareform(x[:3])
    """,
    "spatial.transform": """
        Rotation.from_rotvec(x[:3]).apply(V)
        Slerp([0.0, 1.0, 2.0], Rotation.from_rotvec(m))(0.7).as_quat()
    """,
    "sparse.linalg": """
        bicg(F, V, rtol=1e-13)[0]
        bicgstab(F, V, rtol=1e-13)[0]
        cg(P, V, rtol=1e-13)[0]
        cgs(F, V, rtol=1e-13)[0]
        expm_multiply(F * 0.1, V)
        factorized(sparse_of(F))(x[:3])
        gcrotmk(F, V, rtol=1e-13)[0]
        gmres(F, V, rtol=1e-13)[0]
        lgmres(F, V, rtol=1e-13)[0]
        matrix_power(F, 3)
        minres(P, V, rtol=1e-13)[0]
        qmr(F, V, rtol=1e-13)[0]
        splu(sparse_of(F)).solve(x[:3])
        spsolve(sparse_of(F), x[:3])
        spsolve_triangular(triangle(sparse_of(F)), x[:3])
        tfqmr(F, V, rtol=1e-13)[0]
    """,
    "special": """
        assoc_laguerre(x, 3, 1.5)
        comb(x + 3.0, 2)
        comb(x + 3.0, x)
        diric(x, 4)
        factorial(x)
        ivp(1.5, x, 2)
        jvp(1.5, x, 2)
        kvp(1.5, x, 2)
        log_softmax(x)
        logsumexp(x)
        wofz(x).imag
        multigammaln(x + 2.0, 3)
        perm(x + 3.0, x)
        sinc(x)
        softmax(x)
        softplus(x)
        yvp(1.5, x, 1)
        zeta(2.5, x)
    """,
    "stats": """
        Binomial(n=5, p=x[0] / 3.0).mean()
        Covariance.from_diagonal(x[:3]).log_pdet
        Logistic: Logistic().logpdf(x)
        Normal(mu=x[0], sigma=x[1]).logpdf(0.3)
        Uniform(a=x[0], b=x[0] + x[1]).entropy()
        dirichlet.logpdf([0.2, 0.3, 0.5], x[:3])
        dirichlet_multinomial.logpmf([1, 2, 1], x[:3], 4)
        epps_singleton_2samp(x, np.sin(T))
        gaussian_kde(x).pdf(0.7)
        invwishart.logpdf(np.eye(2), 4.0, S @ S.T)
        matrix_normal.logpdf(S, np.zeros((2, 2)))
        matrix_t.logpdf(S, np.zeros((2, 2)), df=3.0)
        multinomial.logpmf([1, 2, 1], 4, x[:3] / np.sum(x[:3]))
        multivariate_normal.logpdf(x[:2], x[2:4], np.diag(x[4:6]))
        multivariate_t.logpdf(x[:2], x[2:4], np.eye(2), x[4])
        normal_inverse_gamma.logpdf(0.3, x[0], x[1], x[2], x[3], x[4])
        spearmanrho(x, T)
        vonmises_fisher.logpdf([0.6, 0.8], [1.0, 0.0], x[0])
        wishart.logpdf(np.eye(2), 4.0, S @ S.T)
    """,
    "stats.contingency": """
        chi2_contingency(m)[:2]
        crosstab(x, [1, 1, 2, 2, 1, 2, 1, 2, 1])[0][0]
        expected_freq(m)
        margins(m)
    """,
    "stats.qmc": """
        discrepancy(m / 2.2)
        discrepancy(m / 2.2, method='WD')
        discrepancy(m / 2.2, method='MD', iterative=True)
        discrepancy(m / 2.2, method='L2-star')
        geometric_discrepancy(m / 2.2)
        scale(PLANE / 3.0, x[:2], x[2:4] + 2.0)
        scale(PLANE / 3.0 + x[0] * 0.01, [0.1, 0.2], [1.2, 1.4], reverse=False)
    """,
}


def module_of(root, name):
    """A module below SciPy, or below the stand-in."""
    return importlib.import_module(f"{root}.{name}")


def written(matrix, x):
    """A sparse matrix with some elements written."""
    matrix[0, 1] = x[0]
    matrix[2, 0] = x[1] * x[2]
    matrix[0, 1] += x[3]
    return matrix.tocsr()


def _of_text(name, text):
    code = compile(text, text, "eval")

    def expression(root, x):
        names = Names(module_of(root, name), x)
        sparse = module_of(root, "sparse")
        names |= {"sparse_of": sparse.csc_array, "triangle": sparse.tril, "written": written}
        names["np"] = np
        return eval(code, names)  # as globals, which functions in it read

    return expression, X


def _of_texts():
    for module, lines in TEXTS.items():
        for line in map(str.strip, lines.strip().splitlines()):
            found = re.match(r"(\w+)(: )?", line)
            yield (
                f"{module}.{found[1]}",
                _of_text(module, line[found.end() :] if found[2] else line),
            )


def _of_tables():
    """The expressions of functions of `stats` and `signal` in their tests."""
    for table in (test_scipy_copied, test_scipy_statistics):
        for name, every in table.EXPRESSIONS.items():
            for one in every:
                yield (
                    f"stats.{name}",
                    (lambda root, x, one=one: one(module_of(root, "stats"), x), table.X),
                )
    for name, every in test_scipy_signal_table.TEXTS.items():
        for text in every:
            code = compile(text, text, "eval")

            def expression(root, x, code=code):
                names = {**test_scipy_signal_table.NAMES, "s": module_of(root, "signal"), "x": x}
                return eval(code, names)

            yield f"signal.{name}", (expression, test_scipy_signal_table.point())


def _of_released():
    """Those of `test_scipy_released`, of a matrix."""
    for text in test_scipy_released.TEXTS:
        code = compile(text, text, "eval")

        def expression(root, x, code=code):
            space = types.SimpleNamespace(**test_scipy_released.doors(root))
            return eval(code, {"np": np, "scipy": space, "x": x.reshape(3, 4)})

        for name in test_scipy_released.USED.findall(text):
            yield name, (expression, np.r_[X, 0.61, 1.53, 0.83])


def _of_ufuncs():
    """Element-wise functions at points of their declarations' domains."""
    ops = [op for op in TABLE.values() if isinstance(op, Pointwise)]
    ops += [op for op in test_special_functions.OPS if op not in ops]
    for op in ops:
        names = [one.removeprefix("scipy.") for one in op.functions if one.startswith("scipy.")]
        if op in test_special_functions.OPS:
            names.append(f"special.{test_special_functions.scipys(op).name}")
        if test_special_functions.varying(op):
            for name in dict.fromkeys(names):
                yield name, _of_ufunc(name, op)


def _of_ufunc(name, op):
    operands = test_special_functions.operands_of(op, (3,), 1)
    kept = test_special_functions.varying(op)
    module, _, own = name.rpartition(".")

    def expression(root, x):
        given = [*operands]
        for k, part in zip(kept, x.reshape(len(kept), 3), strict=True):
            given[k] = part
        found = getattr(module_of(root, module), own)(*given)
        return found[0] if isinstance(found, tuple) else found

    return expression, np.concatenate([operands[k] for k in kept])


#: By name below `scipy`: functions of a package and a vector, and where.
EXPRESSIONS: dict = {}
for _name, _one in (*_of_texts(), *_of_tables(), *_of_released(), *_of_ufuncs()):
    _module, _, _own = _name.rpartition(".")
    if hasattr(importlib.import_module(f"scipy.{_module}"), _own):
        EXPRESSIONS.setdefault(_name, []).append(_one)

#: Names that refuse with words of their own, or need other arguments to do so.
REFUSED: dict = {
    "interpolate.CloughTocher2DInterpolator": lambda f, x: f(PLANE[:4], x)([[0.5, 0.5]]),
    "ndimage.geometric_transform": lambda f, x: f(x.reshape(2, 2), lambda at: at),
    "spatial.transform.RigidTransform": lambda f, x: f.from_translation(x[:3]).apply(V),
    **{
        f"spatial.{name}": lambda f, x: f(PLANE * x[0])
        for name in "ConvexHull Delaunay HalfspaceIntersection SphericalVoronoi Voronoi".split()
    },
    **{
        f"stats.{name}": lambda f, x: f.rvs(x[0])
        for name in "ortho_group special_ortho_group unitary_group uniform_direction".split()
    },
    "stats.random_correlation": lambda f, x: f.rvs(x),
    "stats.multivariate_hypergeom": lambda f, x: f.rvs(x * 4.0, x[0]),
    "stats.random_table": lambda f, x: f.rvs(x * 4.0, x[0]),
    "special.elliprd": lambda f, x: f(x, x, x),
}
