"""Splines, images, grids, meshes, signals, attitudes and neighbours, by SciPy's own names."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import scipy.integrate
import scipy.interpolate as si
import scipy.ndimage as ndi
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy import ndimage, signal, sparse, spatial, special
from scipy.interpolate import (
    BSpline,
    CubicSpline,
    PchipInterpolator,
    RegularGridInterpolator,
    interp1d,
)
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.sparse import coo_matrix, csr_matrix, diags
from scipy.sparse.linalg import factorized, spsolve
from scipy.spatial import KDTree, cKDTree
from scipy.spatial.transform import Rotation as R
from scipy.spatial.transform import Slerp

# --- splines --------------------------------------------------------------------------------------

KNOTS = np.array([0.0, 0.5, 1.1, 1.8, 2.5, 3.0])
SEEN = {0.2: 0.3, 0.9: 1.1, 1.4: 0.9, 2.2: -0.2, 2.9: 0.1}


def spline_fit(y):
    """A natural spline through parameters, with a penalty of its curvature."""
    spline = CubicSpline(KNOTS, y, bc_type="natural")
    bends = spline.derivative(2)(np.linspace(0, 3, 13))
    return sum((spline(t) - v) ** 2 for t, v in SEEN.items()) + 0.01 * np.sum(bends**2)


class Curve:
    """Discount factors from yields at pillars."""

    def __init__(self, times, yields):
        self.times = times
        self.spline = PchipInterpolator(times, np.asarray(yields) * times)

    def discount(self, t):
        return np.exp(-self.spline(t))

    def forward(self, t):
        return self.spline.derivative()(t)


def yield_curve(y):
    curve = Curve(np.array([0.0, 1.0, 2.0, 5.0, 10.0]), np.concatenate([[0.0], y / 100]))
    swap = (1 - curve.discount(7.0)) / sum(curve.discount(t) for t in range(1, 8))
    return 100 * swap + curve.forward(np.array([0.5, 3.3, 8.0])).max()


def path_length(p):
    """The arc length of a curve up to a time, as an integral of a spline."""
    t = np.linspace(0, 2, 9)
    speed = np.hypot(p[0] * np.cos(p[1] * t), 0.5 + t)
    return CubicSpline(t, speed).integrate(0.1, 1.0 + p[2])


def lookup_table(p):
    """Linear in a table, constant beyond."""
    table = interp1d([0.0, 1.0, 2.0, 4.0], [0.2, 0.9, 0.4, 0.1], bounds_error=False,
                     fill_value=(0.2, 0.1))  # fmt: skip
    at, total = p[0], 0.0
    for _ in range(6):
        at = at + p[1] * table(at)
        total += float(at > 1.0) * at**2
    return total + at


def lift_table(p):
    """A wing between angles and speeds."""
    angles, speeds = np.array([-4.0, 0.0, 4.0, 8.0, 12.0]), np.array([0.3, 0.5, 0.8])
    lifts = 0.11 * angles[:, None] / np.sqrt(1 - speeds**2) - 0.004 * angles[:, None] ** 2
    lift = RegularGridInterpolator((angles, speeds), lifts, bounds_error=False, fill_value=None)
    path = np.column_stack([p[0] + p[1] * np.arange(5), p[2] * np.linspace(0.9, 1.2, 5)])
    return np.sum(lift(path)) - 0.1 * lift(path[:1], method="nearest")[0]


def bent_beam(c):
    """The bending energy of a curve of B-splines, and its end."""
    t = np.r_[[0.0] * 4, 0.4, 0.7, [1.0] * 4]
    curve = BSpline(t, c.reshape(6, 2), 3)
    u = np.linspace(0, 1, 15)
    bends = curve.derivative(nu=2)(u)
    energy = scipy.integrate.trapezoid(np.sum(bends**2, axis=1), u)
    return 1e-3 * energy + np.sum((curve(1.0) - [1.0, 0.5]) ** 2)


def scattered_terrain(p):
    """Heights by radial functions whose width and one height are sought."""
    places = np.array([[0.0, 0.0], [1.0, 0.1], [0.2, 0.9], [1.1, 1.2], [0.5, 0.4]])
    heights = np.append(p[:2], [0.3, 0.8, 0.5])
    surface = si.RBFInterpolator(places, heights, kernel="gaussian", epsilon=1.3)
    return np.sum(np.sin(surface(np.array([[0.3, 0.3], [0.8, 0.7]]) + p[2])))


# --- images ---------------------------------------------------------------------------------------

ROWS, COLUMNS = np.mgrid[0:12, 0:14]
SCENE = np.sin(0.5 * ROWS) + np.cos(0.4 * COLUMNS + 0.1 * ROWS) + 0.02 * ROWS * COLUMNS
OTHER = np.roll(SCENE, 1, axis=1) + 0.05 * np.cos(ROWS * 1.7 + COLUMNS)
TRIED = Counter()


def registration(p):
    """A similarity of an image to another, the finest of a pyramid last."""
    TRIED["registration"] += 1
    angle, dy, dx = p
    c, s = np.cos(angle), np.sin(angle)
    y, x = ROWS - 5.5, COLUMNS - 6.5
    places = np.stack([c * y - s * x + 5.5 + dy, s * y + c * x + 6.5 + dx])
    total = 0.0
    for sigma in (2.0, 1.0):
        smooth = gaussian_filter(SCENE, sigma)
        moved = map_coordinates(smooth, places, order=3, mode="nearest")
        total += np.mean((moved - gaussian_filter(OTHER, sigma)) ** 2)
    return total


def shifted_correlation(p):
    """Normalised cross-correlation of an image moved by parts of an element."""
    moved = ndimage.shift(SCENE, p[:2], order=3, mode="reflect") * np.exp(p[2])
    a, b = moved - moved.mean(), OTHER - ndi.uniform_filter(OTHER, 3).mean()
    return -np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2)) + 0.1 * p[2] ** 2


def blur_and_noise(p):
    """The width of a point spread function from an image, with losses of two kinds."""
    model = gaussian_filter(SCENE, sigma=np.exp(p[0])) * p[1]
    gaps = model - ndimage.median_filter(OTHER, size=3)
    return np.where(np.abs(gaps) < 0.31, 0.5 * gaps**2, 0.31 * (np.abs(gaps) - 0.155)).sum()


def edge_energy(image):
    """Ginzburg-Landau energy of edges of a small image."""
    u = image.reshape(4, 4)
    gx, gy = ndi.sobel(u, axis=0), ndi.sobel(u, axis=1, mode="constant")
    wells = 0.25 * (1 - u**2) ** 2
    return np.sum(np.sqrt(gx**2 + gy**2 + 1e-2)) + np.sum(ndi.laplace(u) ** 2) + wells.sum()


def region_statistics(p):
    """Means, spreads and centres of labelled regions of an image of parameters."""
    labels = np.array([[1, 1, 2], [1, 0, 2], [3, 3, 2]])
    image = np.exp(np.sin(p[0] * np.arange(9.0) + p[1])).reshape(3, 3)
    means = ndimage.mean(image, labels, index=[1, 2, 3])
    row, column = ndimage.center_of_mass(image)
    return (
        np.sum(means * ndi.sum(image, labels, [3, 2, 1]))
        + row * column
        + (ndimage.maximum(image, labels, 2) - ndimage.variance(image, labels, 1))
    )


def local_contrast(p):
    """Dilation less erosion, and a local deviation, of a thresholded picture."""
    image = special.expit(6 * (SCENE * p[0] - p[1]))
    mean = ndi.uniform_filter(image, size=3)
    spread = np.sqrt(np.maximum(ndi.uniform_filter(image**2, size=3) - mean**2, 1e-6))
    return np.mean(ndi.grey_dilation(image, 3) - ndi.grey_erosion(image, 3)) + spread.mean()


# --- meshes and grids -----------------------------------------------------------------------------


@dataclass
class Mesh:
    points: np.ndarray
    triangles: np.ndarray

    @classmethod
    def square(cls, n):
        y, x = np.mgrid[0 : 1 : n * 1j, 0 : 1 : n * 1j]
        corner = np.arange(n * n).reshape(n, n)[:-1, :-1].ravel()
        triangles = [(c, c + 1, c + n) for c in corner] + [
            (c + 1, c + n + 1, c + n) for c in corner
        ]
        return cls(np.column_stack([x.ravel(), y.ravel()]), np.array(triangles))

    def stiffness(self, conductivity):
        rows, columns, values = [], [], []
        for triangle, k in zip(self.triangles, conductivity):
            a, b, c = self.points[triangle]
            area = 0.5 * ((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
            slopes = np.array([[b[1] - c[1], c[0] - b[0]], [c[1] - a[1], a[0] - c[0]],
                               [a[1] - b[1], b[0] - a[0]]]) / (2 * area)  # fmt: skip
            element = k * area * slopes @ slopes.T
            for i in range(3):
                for j in range(3):
                    rows.append(triangle[i])
                    columns.append(triangle[j])
                    values.append(element[i, j])
        n = len(self.points)
        return coo_matrix((values, (rows, columns)), shape=(n, n)).tocsr()


def finite_elements(p):
    """Heat in a plate whose conductivity varies: the temperature at an edge."""
    mesh = Mesh.square(4)
    centres = mesh.points[mesh.triangles].mean(axis=1)
    k = np.exp(p[0] * centres[:, 0] + p[1] * centres[:, 1] ** 2)
    K = mesh.stiffness(k)
    free = np.flatnonzero(mesh.points[:, 0] > 0)
    load = np.full(len(free), 0.1) + p[2] * mesh.points[free, 1]
    return spsolve(K[free][:, free].tocsc(), load)[-4:].sum()


def implicit_heat(p):
    """A rod by implicit steps, with one factorisation."""
    n, dt = 20, 0.05
    laplacian = diags([np.ones(n - 1), -2 * np.ones(n), np.ones(n - 1)], [-1, 0, 1])
    A = sparse.identity(n) - dt * p[0] * laplacian
    solve = factorized(A.tocsc())
    u = np.sin(np.linspace(0, np.pi, n)) * p[1]
    for _ in range(8):
        u = solve(u + dt * np.maximum(p[2] - u, 0.0))
    return np.sum(u**2)


ROD = sparse.identity(15) - 0.3 * diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(15, 15))


def heated_rod(p):
    """Implicit steps of a matrix without parameters, whose factors all steps share."""
    solve, u = factorized(ROD.tocsc()), np.zeros(15)
    for k in range(6):
        u = solve(u + p[0] * np.exp(-((np.arange(15) - p[1] - k) ** 2)))
    adjoint = spl.splu(ROD.tocsc()).solve(u**2, trans="T")
    return adjoint.max() + np.minimum(u, p[2]).sum()


def crank_nicolson(p):
    """Diffusion with a layer of other material, on a plane, by Kronecker sums."""
    n = 5
    k = np.where(np.arange(n - 1) < 2, p[0], p[1])
    main = -(np.append(k, 0.0) + np.append(0.0, k))
    D = sp.diags([k, main, k], [-1, 0, 1], format="csr")
    L = sp.kron(D, sp.eye(n)) + sp.kron(sp.eye(n), D)
    eye, u = sp.eye(n * n, format="csc"), np.zeros(n * n)
    u[7] = 1.0
    for _ in range(4):
        u = spl.spsolve((eye - 0.1 * L).tocsc(), (eye + 0.1 * L) @ u)
    return u @ np.arange(n * n) ** 2 / 100


def resistor_network(p):
    """Currents in a network from a list of edges."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)]
    tails, heads = zip(*edges)
    m = len(edges)
    incidence = csr_matrix(
        (np.r_[np.ones(m), -np.ones(m)], (np.r_[range(m), range(m)], np.r_[tails, heads])),
        shape=(m, 4),
    )
    G = incidence.T @ sp.diags(np.exp(p)) @ incidence
    v = spsolve(G[1:, 1:].tocsc(), np.array([0.0, 1.0, -0.2]))
    flow = np.exp(p) * (incidence @ np.append(0.0, v))
    return np.sum(flow**2) + np.abs(v).max()


def page_rank(p):
    links = {0: [1, 2], 1: [2], 2: [0, 3], 3: [0]}
    rows, columns, weights = [], [], []
    for page, outs in links.items():
        strength = np.exp(p[: len(outs)])
        for k, out in enumerate(outs):
            rows.append(out)
            columns.append(page)
            weights.append(strength[k] / strength.sum())
    M = sp.csr_array((np.array(weights), (rows, columns)), shape=(4, 4))
    rank = np.full(4, 0.25)
    for _ in range(20):
        rank = p[2] * (M @ rank) + (1 - p[2]) / 4
    return np.log(rank) @ [1.0, -0.5, 0.2, 0.3]


# --- orbits and attitudes -------------------------------------------------------------------------

STARS = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, 0.6], [-0.6, 0.0, 0.8], [0.3, -0.9, 0.1]])
MEASURED = R.from_euler("zyx", [0.4, -0.3, 0.6]).apply(STARS) + 0.01 * np.cos(
    np.arange(12.0)
).reshape(4, 3)


def attitude_fit(v):
    """A rotation vector, with a loss that bounds what a false star does."""
    gaps = R.from_rotvec(v).apply(STARS) - MEASURED
    squares = np.sum(gaps**2, axis=1)
    return np.sum(squares / (1 + squares)) + 0.01 * R.from_rotvec(v).magnitude()


def gyro_path(p):
    """Attitudes by angular rates, and the angle to the last one measured."""
    attitude, bias = R.from_quat([0.0, 0.0, 0.0, 1.0]), p[:3]
    for rate in [[0.1, 0.2, 0.0], [0.0, 0.5, -0.3], [0.4, -0.1, 0.2]]:
        attitude = attitude * R.from_rotvec(0.5 * (np.array(rate) - bias))
    error = attitude.inv() * R.from_euler("xyz", [20.0, 15.0, -5.0 * p[3]], degrees=True)
    return error.magnitude() ** 2 + attitude.as_quat()[3] + attitude.as_matrix()[0, 1]


def orbit_elements(p):
    """Angles of an orbit's plane and of the place in it, against directions seen."""
    total = 0.0
    for anomaly, seen in zip([0.2, 1.1, 2.5], STARS):
        E = anomaly
        for _ in range(12):
            E = E - (E - p[3] * np.sin(E) - anomaly) / (1 - p[3] * np.cos(E))
        plane = np.array([np.cos(E) - p[3], np.sqrt(1 - p[3] ** 2) * np.sin(E), 0.0])
        place = R.from_euler("ZXZ", p[:3]).apply(plane)
        total += np.arccos(np.clip(place @ seen / np.linalg.norm(place), -1, 1)) ** 2
    return total


def camera_path(p):
    """Key frames between which a camera turns."""
    keys = R.from_euler("zx", np.array([[0.0, p[0]], [p[1], 0.3], [1.0, p[2]]]))
    turned = Slerp([0.0, 1.0, 2.5], keys)([0.3, 0.9, 1.7, 2.2])
    return np.sum(turned.apply([0.1, 0.7, 1.0])[:, :2] ** 2) + turned.as_euler("zyx")[-1, 0]


# --- signals --------------------------------------------------------------------------------------

T = np.arange(128) / 32.0
TONE = np.sin(2 * np.pi * 4.3 * T) + 0.4 * np.cos(2 * np.pi * 9.1 * T) + 0.1 * np.sin(37.0 * T**2)


def whitened_spectrum(p):
    """Whittle's likelihood of a peak by Welch's estimate."""
    f, power = signal.welch(TONE * np.exp(p[0]), fs=32.0, nperseg=32)
    model = np.exp(p[1]) / ((f - p[2]) ** 2 + 1.0) + 0.05
    return np.sum(np.log(model) + power / model)


def tone_in_noise(p):
    rest = TONE - p[0] * np.sin(2 * np.pi * p[1] * T + p[2])
    f, power = signal.periodogram(rest, fs=32.0, window="hann", detrend="linear")
    band = (f > 3.0) & (f < 6.0)
    return scipy.integrate.trapezoid(power[band], f[band]) + 0.1 * power.max()


def zero_phase(p):
    """An exponential smoother run forth and back, and a band that stays."""
    smooth = signal.filtfilt([p[0]], [1.0, p[0] - 1.0], TONE * (1 + p[1] * T))
    sos = signal.butter(3, [3.0, 6.0], btype="bandpass", fs=32.0, output="sos")
    band = signal.sosfilt(sos, smooth)
    return np.mean(band**2) + np.abs(signal.hilbert(smooth)[40:90]).mean()


def matched_echo(p):
    """Delay and stretch of a chirp, by a correlation of all lags."""
    chirp = signal.chirp(T[:40] * np.exp(p[0]), f0=2.0, f1=6.0, t1=1.0) * signal.windows.hann(40)
    lags = signal.correlate(TONE, chirp, mode="same") / np.linalg.norm(chirp)
    low = signal.fftconvolve(lags, np.exp(-0.5 * (np.arange(-4, 5) / p[1]) ** 2), mode="valid")
    return np.log(np.sum(np.exp(0.2 * low))) - 0.1 * low.max()


def designed_filter(p):
    """A window design and the response that it has, in a stop band and a pass band."""
    taps = signal.firwin(15, 0.3) * np.exp(-p[0] * np.linspace(-1, 1, 15) ** 2) + p[1] / 15
    w, h = signal.freqz(taps, worN=32)
    gain = np.abs(h)
    return np.sum(np.maximum(gain[w > 1.3] - 0.02, 0.0) ** 2) + np.sum((gain[w < 0.6] - 1) ** 2)


def state_space(p):
    """A mass on a spring by SciPy's matrices of discrete steps."""
    A = np.array([[0.0, 1.0], [-p[0], -p[1]]])
    Ad, Bd, C, D, dt = signal.cont2discrete(
        (A, np.array([[0.0], [1.0]]), np.array([[1.0, 0.0]]), np.zeros((1, 1))), 0.1
    )
    x, cost = np.zeros(2), 0.0
    for k in range(25):
        x = Ad @ x + Bd[:, 0] * (1.0 if k < 10 else -p[2])
        cost += abs(x[0] - 0.3) * dt + 0.01 * (C @ x)[0] ** 2
    return cost + D[0, 0]


# --- neighbours -----------------------------------------------------------------------------------

FIXED = np.array([[0.0, 0.0], [1.0, 0.2], [0.4, 0.9], [1.3, 1.1], [0.1, 1.7], [1.8, 0.4]])


def neighbour_energy(x):
    """Atoms repel those near them; which these are, a tree finds."""
    atoms = x.reshape(-1, 2)
    tree = cKDTree(atoms.copy())
    energy = 0.0
    for i, j in sorted(tree.query_pairs(1.0)):
        energy += (1.0 - np.linalg.norm(atoms[i] - atoms[j])) ** 2
    return energy + 0.1 * np.sum(atoms**2)


def nearest_points(p):
    """A step of the registration of clouds of points, by the nearest of each."""
    c, s = np.cos(p[0]), np.sin(p[0])
    moved = FIXED * 0.9 @ np.array([[c, s], [-s, c]]) + p[1:]
    distances, places = KDTree(FIXED).query(moved)
    return np.sum(distances**2) + 0.01 * np.sum(np.abs(moved - FIXED[places]))


def shape_fit(p):
    """Two outlines compared after their best fit, and by their greatest gap."""
    ring = np.column_stack([np.cos(np.arange(6.0) + p[0]), p[1] * np.sin(np.arange(6.0))])
    disparity = spatial.procrustes(FIXED, ring)[2]
    return disparity + 0.1 * spatial.distance.directed_hausdorff(ring, FIXED)[0]


POINTS = {
    "spline_fit": [[0.1, 0.8, 1.2, 0.3, -0.4, 0.2], [1.0, -0.3, 0.5, 0.9, 0.0, -0.7]],
    "yield_curve": [[2.0, 2.5, 3.0, 3.2], [5.0, 4.0, 4.1, 2.0]],
    "path_length": [[1.0, 1.3, 0.2], [0.4, 2.5, 0.8]],
    "lookup_table": [[0.13, 0.7], [0.6, 1.9]],
    "lift_table": [[1.3, 1.1, 0.5], [-3.2, 2.9, 0.61]],
    "bent_beam": [[0.0, 0.0, 0.2, 0.1, 0.5, 0.4, 0.7, 0.2, 0.9, 0.6, 1.1, 0.4],
        [0.0, 0.3, 0.1, 0.5, 0.6, 0.1, 0.2, 0.2, 1.4, 0.6, 0.8, 0.9]],
    "scattered_terrain": [[0.2, 0.7, 0.1], [1.1, -0.4, -0.2]],
    "registration": [[0.05, 0.3, -0.6], [-0.2, -1.3, 1.1]],
    "shifted_correlation": [[0.3, -0.6, 0.1], [-1.2, 0.7, -0.4]],
    "blur_and_noise": [[0.1, 0.9], [0.7, 1.2]],
    "edge_energy": [[0.1 * k * (-1) ** (k // 3) for k in range(16)],
        [np.cos(1.3 * k) for k in range(16)]],
    "region_statistics": [[0.7, 0.2], [-1.3, 0.9]],
    "local_contrast": [[0.8, 0.9], [1.3, 0.2]],
    "finite_elements": [[0.3, -0.4, 0.2], [-1.0, 0.8, 0.5]],
    "implicit_heat": [[1.0, 0.8, 0.47], [4.0, 1.2, 0.83]],
    "heated_rod": [[1.0, 2.3, 0.41], [2.0, 5.7, 1.13]],
    "crank_nicolson": [[1.0, 0.4], [0.3, 2.0]],
    "resistor_network": [[0.1, 0.4, -0.2, 0.3, 0.0, -0.5], [-1.0, 0.2, 0.7, -0.3, 1.1, 0.6]],
    "page_rank": [[0.3, -0.2, 0.85], [-1.0, 0.6, 0.6]],
    "attitude_fit": [[0.5, -0.2, 0.3], [-1.4, 0.9, 2.0]],
    "gyro_path": [[0.01, -0.02, 0.03, 1.0], [0.3, 0.2, -0.4, 7.0]],
    "orbit_elements": [[0.4, 0.9, -0.3, 0.2], [2.4, -0.5, 1.3, 0.6]],
    "camera_path": [[0.1, 0.5, 0.9], [1.2, -0.6, -0.3]],
    "whitened_spectrum": [[0.1, -0.5, 4.4], [-0.6, 0.4, 8.8]],
    "tone_in_noise": [[0.9, 4.2, 0.1], [0.4, 4.7, 1.0]],
    "zero_phase": [[0.6, 0.1], [0.9, -0.2]],
    "matched_echo": [[0.05, 1.5], [-0.3, 2.7]],
    "designed_filter": [[0.5, 0.1], [1.7, -0.4]],
    "state_space": [[2.0, 0.3, 0.5], [5.0, 1.2, -0.4]],
    "neighbour_energy": [[0.0, 0.1, 0.8, 0.2, 0.5, 0.9, 1.9, 1.8],
        [0.0, 0.0, 0.3, 0.9, 0.7, 0.1, 0.6, 0.5]],
    "nearest_points": [[0.1, 0.05, -0.1], [1.2, 0.6, 0.3]],
    "shape_fit": [[0.2, 0.8], [1.1, 1.7]],
}  # fmt: skip
