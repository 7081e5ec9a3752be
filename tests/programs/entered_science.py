"""Physics, chemistry, astronomy, control, signals, geometry and finance, as people write them."""

import abc
import enum
import functools
import math
import typing
from dataclasses import dataclass

import numpy as np
import numpy.linalg as la
import scipy.signal
from numpy import array, cos, cross, dot, eye, pi, sin, sqrt, zeros
from scipy import constants, integrate, linalg, special

# --- finance --------------------------------------------------------------------------------------


class Kind(enum.Enum):
    CALL = "call"
    PUT = "put"

    def payoff(self, spot, strike):
        gain = spot - strike if self is Kind.CALL else strike - spot
        return np.maximum(gain, 0.0)


@dataclass
class Option:
    strike: float
    expiry: float
    kind: Kind = Kind.CALL

    def tree(self, spot, rate, vol, steps=20):
        dt = self.expiry / steps
        up = np.exp(vol * np.sqrt(dt))
        q = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
        values = np.zeros(steps + 1)
        for j in range(steps + 1):
            values[j] = self.kind.payoff(spot * up ** (2 * j - steps), self.strike)
        for _ in range(steps):
            values = np.exp(-rate * dt) * (q * values[1:] + (1 - q) * values[:-1])
        return values[0]


def option_book(p):
    book = [Option(95.0, 1.0), Option(105.5, 0.5, Kind.PUT), Option(100.3, 2.0)]
    return sum(o.tree(100.0 * p[0], p[1], p[2]) for o in book)


def bond_curve(p):
    """Nelson-Siegel yields against a table of yields."""
    curve = {0.5: 0.02, 1: 0.022, 2: 0.025, 5: 0.03, 10: 0.034}

    def rate(t):
        x = t / p[3]
        load = (1 - math.exp(-x)) / x
        return p[0] + p[1] * load + p[2] * (load - math.exp(-x))

    return 1e4 * sum((rate(t) - y) ** 2 for t, y in curve.items())


def portfolio(w):
    returns = np.array(
        [[0.01, 0.02, -0.01], [0.03, -0.02, 0.0], [0.0, 0.01, 0.02], [-0.02, 0.0, 0.01]]
    )
    w = np.exp(w) / np.sum(np.exp(w))
    pnl = returns @ w
    drawdown, peak, level = 0.0, 1.0, 1.0
    for r in pnl:
        level *= 1 + r
        peak = max(peak, level)
        drawdown = max(drawdown, 1 - level / peak)
    return np.mean(pnl) / np.std(pnl, ddof=1) - 5 * drawdown


def mortgage(p):
    balance, paid, month = 200_000.0, 0.0, 0
    payment = balance * (p[0] / 12) / (1 - (1 + p[0] / 12) ** -360)
    while balance > 1e-6 and month < 24:
        interest = balance * p[0] / 12
        balance -= payment + p[1] - interest
        paid += interest
        month += 1
    return paid / 1e4


def heston_moment(p):
    kappa, theta, sigma, v = p
    steps, dt = 40, 1 / 40
    for k in range(steps):
        shock = math.sin(12.9 * k) * math.sqrt(dt)
        v = v + kappa * (theta - v) * dt + sigma * np.sqrt(np.maximum(v, 1e-8)) * shock
    return v * 100


# --- physics --------------------------------------------------------------------------------------


class Body:
    def __init__(self, mass, position, velocity):
        self.mass = mass
        self.position, self.velocity = np.array(position), np.array(velocity)

    def kinetic(self):
        return 0.5 * self.mass * np.dot(self.velocity, self.velocity)


class System:
    def __init__(self, bodies):
        self.bodies, self.time = list(bodies), 0.0

    def forces(self):
        found = [np.zeros(2) for _ in self.bodies]
        for i, a in enumerate(self.bodies):
            for j, b in enumerate(self.bodies):
                if i != j:
                    r = b.position - a.position
                    found[i] += a.mass * b.mass * r / (np.linalg.norm(r) ** 3 + 0.01)
        return found

    def advance(self, dt):
        for body, force in zip(self.bodies, self.forces(), strict=True):
            body.velocity = body.velocity + dt * force / body.mass
        for body in self.bodies:
            body.position = body.position + dt * body.velocity
        self.time += dt


def three_bodies(p):
    system = System(
        [Body(1.0, [0.0, 0.0], [0.0, 0.0]), Body(p[2], [1.0, 0.0], [p[0], p[1]]),
         Body(0.1, [0.0, 1.5], [0.8, 0.0])]
    )  # fmt: skip
    for _ in range(15):
        system.advance(0.02)
    return sum(b.kinetic() for b in system.bodies) + system.bodies[1].position[0]


def heat_equation(p):
    n, dt = 12, 0.1
    u = zeros(n)
    u[n // 2] = 1.0
    for _ in range(20):
        new = u.copy()
        new[1:-1] = u[1:-1] + p[0] * dt * (u[2:] - 2 * u[1:-1] + u[:-2])
        new[0] = p[1] * u[1]
        u = new
    return dot(u, np.arange(n) ** 2) / u.sum()


def quantum_well(p):
    """The lowest level of a potential on a grid."""
    x = np.linspace(-3, 3, 15)
    h = x[1] - x[0]
    H = np.diag(p[0] * x**2 + p[1] * x**4) + eye(15) / h**2
    H -= 0.5 * (eye(15, k=1) + eye(15, k=-1)) / h**2
    return la.eigvalsh(H)[0]


def ising(p):
    """The free energy of a ring by its transfer matrix."""
    J, h = p
    T = array([[np.exp(J + h), np.exp(-J)], [np.exp(-J), np.exp(J - h)]])
    return np.log(np.trace(la.matrix_power(T, 8)))


def pendulum_period(p):
    def integrand(theta):
        return 1 / sqrt(1 - (sin(p[0] / 2) * sin(theta)) ** 2)

    theta = np.linspace(0, pi / 2, 41)
    return 4 * sqrt(p[1] / constants.g) * integrate.simpson(integrand(theta), x=theta)


# --- chemistry ------------------------------------------------------------------------------------


class Reaction(typing.NamedTuple):
    reactants: tuple
    products: tuple
    prefactor: float
    energy: float

    def rate(self, c, temperature):
        k = self.prefactor * math.exp(-self.energy / (constants.R * temperature))
        for name in self.reactants:
            k = k * c[name]
        return k


REACTIONS = [
    Reaction(("A",), ("B",), 5e3, 2.5e4),
    Reaction(("A", "B"), ("C",), 2e3, 2.0e4),
    Reaction(("C",), ("A", "B"), 1e2, 2.2e4),
]


def kinetics(p):
    c = {"A": p[0], "B": 0.1, "C": 0.0}
    for _ in range(25):
        rates = [r.rate(c, p[1] * 300.0) for r in REACTIONS]
        for r, v in zip(REACTIONS, rates, strict=True):
            for name in r.reactants:
                c[name] = c[name] - 0.02 * v
            for name in r.products:
                c[name] = c[name] + 0.02 * v
    return c["C"] + 0.1 * c["B"]


def acid_ph(p):
    """Newton's method for the charge balance of a weak acid."""
    ka, c = 10 ** -p[0], p[1]
    ph = 4.0
    for _ in range(30):
        h = 10**-ph
        f = h - 1e-14 / h - c * ka / (ka + h)
        slope = -math.log(10) * h * (1 + 1e-14 / h**2 + c * ka / (ka + h) ** 2)
        ph = ph - f / slope
    return ph


def lennard_jones(x):
    atoms = x.reshape(-1, 3)
    energy = 0.0
    for i in range(len(atoms)):
        for j in range(i):
            r2 = np.sum((atoms[i] - atoms[j]) ** 2)
            energy += 4 * (r2**-6 - r2**-3)
    return energy


def peng_robinson(p):
    """The compressibility by Halley's steps."""
    tr, pr, omega = p
    kappa = 0.37464 + 1.54226 * omega - 0.26992 * omega**2
    alpha = (1 + kappa * (1 - math.sqrt(tr))) ** 2
    A, B = 0.45724 * alpha * pr / tr**2, 0.07780 * pr / tr
    coefficients = [1, B - 1, A - 3 * B**2 - 2 * B, B**3 + B**2 - A * B]
    z = 1.0
    for _ in range(20):
        f = np.polyval(coefficients, z)
        d = np.polyval(np.polyder(coefficients), z)
        z = z - f / d
    return z


def debye_heat(p):
    x = np.linspace(1e-6, p[0], 61)
    return 9 / p[0] ** 3 * integrate.trapezoid(x**4 * np.exp(x) / np.expm1(x) ** 2, x)


# --- astronomy ------------------------------------------------------------------------------------


def kepler(p):
    eccentricity, mean = p
    E = mean
    while True:
        step = (E - eccentricity * math.sin(E) - mean) / (1 - eccentricity * math.cos(E))
        E -= step
        if abs(step) < 1e-14:
            break
    true = 2 * math.atan2(
        math.sqrt(1 + eccentricity) * math.sin(E / 2), math.sqrt(1 - eccentricity) * math.cos(E / 2)
    )
    return (1 - eccentricity**2) / (1 + eccentricity * math.cos(true)) + true


class Cosmology:
    def __init__(self, h, matter, dark):
        self.h, self.matter, self.dark = h, matter, dark

    @property
    def curvature(self):
        return 1.0 - self.matter - self.dark

    @functools.cached_property
    def hubble_distance(self):
        return constants.c / 1000 / (100 * self.h)

    def e(self, z):
        return np.sqrt(self.matter * (1 + z) ** 3 + self.curvature * (1 + z) ** 2 + self.dark)

    def distance(self, z, n=33):
        grid = np.linspace(0.0, z, n)
        return self.hubble_distance * integrate.simpson(1 / self.e(grid), x=grid) * (1 + z)


def supernovae(p):
    cosmos = Cosmology(*p)
    seen = {0.1: 38.3, 0.5: 42.2, 1.0: 44.1}
    return sum((5 * np.log10(cosmos.distance(z)) + 25 - mu) ** 2 for z, mu in seen.items())


def light_curve(p):
    """A transit, piecewise."""
    depth, duration, centre = p
    flux = np.ones(21)
    for k, t in enumerate(np.linspace(-1, 1, 21)):
        z = abs(t - centre) / duration
        if z < 0.8:
            flux[k] = 1 - depth
        elif z < 1.2:
            flux[k] = 1 - depth * (1.2 - z) / 0.4
    return np.sum((flux - 0.99) ** 2) * 100


def slit(p):
    r = np.linspace(0.1, 5.0, 30) / p[0]
    image = np.sinc(r) ** 2 + 0.1 * special.erfc(r)
    return p[1] * np.sum(image * r) * (r[1] - r[0])


# --- control, robotics ----------------------------------------------------------------------------


class Pid:
    def __init__(self, kp, ki, kd):
        self.kp, self.ki, self.kd = kp, ki, kd
        self.integral, self.previous = 0.0, None

    def __call__(self, error, dt):
        self.integral += error * dt
        slope = 0.0 if self.previous is None else (error - self.previous) / dt
        self.previous = error
        return self.kp * error + self.ki * self.integral + self.kd * slope


def pid_tuning(gains):
    controller, y, v, cost = Pid(*gains), 0.0, 0.0, 0.0
    for _ in range(40):
        u = np.clip(controller(1.0 - y, 0.05), -5.0, 5.0)
        v += 0.05 * (u - 0.5 * v - 2.0 * y)
        y += 0.05 * v
        cost += (1.0 - y) ** 2 + 0.001 * u**2
    return cost


def rotation(axis, angle):
    K = zeros((3, 3))
    K[0, 1], K[0, 2], K[1, 2] = -axis[2], axis[1], -axis[0]
    K = K - K.T
    return eye(3) + sin(angle) * K + (1 - cos(angle)) * (K @ K)


def robot_arm(angles):
    T, at, links = eye(3), zeros(3), [0.5, 0.4, 0.2]
    axes = [array([0.0, 0.0, 1.0]), array([0.0, 1.0, 0.0]), array([0.0, 1.0, 0.0])]
    for angle, axis, length in zip(angles, axes, links, strict=True):
        T = T @ rotation(axis, angle)
        at = at + T @ array([length, 0.0, 0.0])
    return la.norm(at - array([0.3, 0.4, 0.2])) + 0.01 * np.sum(angles**2)


class Estimator(abc.ABC):
    @abc.abstractmethod
    def step(self, z): ...

    def run(self, data):
        return [self.step(z) for z in data]


class Kalman(Estimator):
    def __init__(self, q, r):
        self.x, self.P = np.array([0.0, 1.0]), np.eye(2)
        self.F, self.H = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        self.Q, self.R = q * np.eye(2), np.array([[r]])

    def step(self, z):
        self.x = self.F @ self.x
        self.P = self.F @ self.P @ self.F.T + self.Q
        S = self.H @ self.P @ self.H.T + self.R
        K = self.P @ self.H.T @ np.linalg.inv(S)
        innovation = z - self.H @ self.x
        self.x = self.x + K @ innovation
        self.P = (np.eye(2) - K @ self.H) @ self.P
        return 0.5 * (innovation @ np.linalg.solve(S, innovation) + np.linalg.slogdet(S)[1])


def kalman_likelihood(p):
    return sum(Kalman(math.exp(p[0]), math.exp(p[1])).run([0.1, 0.25, 0.2, 0.45, 0.5]))


def lqr_cost(p):
    A = array([[1.0, 0.1], [-0.2, 0.9]])
    B = array([[0.0], [0.1]])
    closed = A - B @ np.atleast_2d(p)
    P = linalg.solve_discrete_lyapunov(closed.T, eye(2))
    return np.trace(P)


def matrix_exponential(p):
    A = array([[-p[0], p[0], 0.0], [p[1], -p[1] - p[2], p[2]], [0.0, 0.5, -0.5]])
    state = array([1.0, 0.0, 0.0]) @ linalg.expm(0.7 * A)
    return state[2] / state[0]


# --- signals, images ------------------------------------------------------------------------------

TIMES = np.arange(32) / 8.0
NOISY = np.sin(2.1 * TIMES) + 0.3 * np.cos(9 * TIMES)


def spectral_fit(p):
    model = p[0] * np.sin(p[1] * TIMES + p[2])
    spectrum = np.abs(np.fft.rfft(NOISY - model)) ** 2
    return spectrum.sum() / len(TIMES)


def recursive_filter(p):
    out = np.empty_like(NOISY)
    out[0] = NOISY[0]
    for k in range(1, len(NOISY)):
        out[k] = p[0] * NOISY[k] + (1 - p[0]) * out[k - 1]
    return np.mean((out - np.sin(p[1] * TIMES)) ** 2)


def butterworth(p):
    smoothed = scipy.signal.lfilter([p[0]], [1.0, p[0] - 1.0], NOISY)
    kernel = np.exp(-0.5 * (np.arange(-3, 4) / p[1]) ** 2)
    return np.var(np.convolve(smoothed, kernel / kernel.sum(), mode="same"))


def image_edges(p):
    image = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            image[i, j] = special.expit(p[0] * (i - p[1]) + 0.3 * j)
    gx, gy = np.gradient(image)
    return np.sum(np.hypot(gx, gy))


def total_variation(x):
    image = x.reshape(3, 3)
    smooth = np.sum(np.abs(np.diff(image, axis=0))) + np.sum(np.abs(np.diff(image, axis=1)))
    seen = np.outer([0.1, 0.7, 0.3], [1.0, 0.2, 0.5])
    return np.sum((image - seen) ** 2) + 0.1 * smooth


def resampled(p):
    places = np.clip(TIMES[:20] * p[0] + p[1], 0.0, TIMES[-1])
    return np.sum(np.interp(places, TIMES, NOISY) ** 2)


# --- geometry, graphics ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Vec:
    x: float
    y: float
    z: float = 0.0

    def __add__(self, o):
        return Vec(self.x + o.x, self.y + o.y, self.z + o.z)

    def __sub__(self, o):
        return Vec(self.x - o.x, self.y - o.y, self.z - o.z)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k, self.z * k)

    def dot(self, o):
        return self.x * o.x + self.y * o.y + self.z * o.z

    def norm(self):
        return math.sqrt(self.dot(self))

    def unit(self):
        return self * (1 / self.norm())


def ray_sphere(p):
    origin, centre = Vec(0.0, 0.0, -3.0), Vec(p[0], p[1])
    light, total = Vec(1.0, 2.0, -2.0).unit(), 0.0
    for i in range(-2, 3):
        direction = Vec(0.2 * i, 0.1 * i, 1.0).unit()
        to = origin - centre
        b, c = 2 * to.dot(direction), to.dot(to) - p[2] ** 2
        d = b * b - 4 * c
        if d > 0:
            hit = origin + direction * ((-b - math.sqrt(d)) / 2)
            total += max((hit - centre).unit().dot(light), 0.0)
    return total


def bezier(p):
    points = p.reshape(4, 2)
    curve = [
        sum(math.comb(3, k) * t**k * (1 - t) ** (3 - k) * points[k] for k in range(4))
        for t in np.linspace(0, 1, 9)
    ]
    return sum(np.linalg.norm(b - a) for a, b in zip(curve, curve[1:]))


def polygon(p):
    corners = list(zip(p[0::2], p[1::2], strict=True))
    area, length = 0.0, 0.0
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        area += x0 * y1 - x1 * y0
        length += math.hypot(x1 - x0, y1 - y0)
    return abs(area) / 2 / length**2


class Camera:
    def __init__(self, focal, angle):
        c, s = np.cos(angle), np.sin(angle)
        self.focal, self.R = focal, np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])

    def project(self, points):
        turned = points @ self.R.T + np.array([0.0, 0.0, 5.0])
        return self.focal * turned[:, :2] / turned[:, 2:]


def reprojection(p):
    cube = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], dtype=float)
    seen = Camera(1.0, 0.3).project(cube)
    return np.sum((Camera(p[0], p[1]).project(cube) - seen) ** 2)


def sdf_blend(p):
    """Smooth union of distances on a grid."""
    total = 0.0
    for x in np.linspace(-1, 1, 5):
        for y in np.linspace(-1, 1, 5):
            a = math.hypot(x - p[0], y) - 0.4
            b = max(abs(x) - 0.3, abs(y - p[1]) - 0.2)
            h = min(max(0.5 + 0.5 * (b - a) / p[2], 0.0), 1.0)
            total += b * (1 - h) + a * h - p[2] * h * (1 - h)
    return total


def triangle_mesh(z):
    vertices = np.column_stack([[0.0, 1.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 1.0, 0.5], z])
    faces = [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)]
    areas = [
        la.norm(cross(vertices[b] - vertices[a], vertices[c] - vertices[a])) / 2
        for a, b, c in faces
    ]
    return sum(areas) + 0.1 * np.ptp(z)


POINTS = {
    "option_book": [[1.0, 0.02, 0.3], [0.9, 0.05, 0.2]],
    "bond_curve": [[0.03, -0.01, 0.01, 1.5], [0.04, -0.02, 0.02, 2.5]],
    "portfolio": [[0.1, 0.5, -0.2], [1.0, -1.0, 0.3]],
    "mortgage": [[0.04, 100.0], [0.06, 9000.0]],
    "heston_moment": [[2.0, 0.04, 0.3, 0.05], [1.0, 0.09, 0.8, 0.02]],
    "three_bodies": [[0.0, 1.0, 0.2], [0.3, 0.8, 0.5]],
    "heat_equation": [[1.0, 0.5], [2.0, 0.1]],
    "quantum_well": [[0.5, 0.1], [1.0, 0.3]],
    "ising": [[0.4, 0.1], [0.7, -0.3]],
    "pendulum_period": [[0.5, 1.0], [1.5, 0.7]],
    "kinetics": [[1.0, 1.0], [2.0, 1.2]],
    "acid_ph": [[4.75, 0.1], [3.2, 0.05]],
    "lennard_jones": [[0, 0, 0, 1.1, 0, 0.1, 0.2, 1.2, 0], [0, 0, 0.3, 1.5, 0.2, 0.1, 0.2, 1.0, 0]],
    "peng_robinson": [[1.2, 1.0, 0.1], [1.5, 0.5, 0.3]],
    "debye_heat": [[2.0], [5.0]],
    "kepler": [[0.3, 1.0], [0.7, 2.5]],
    "supernovae": [[0.7, 0.3, 0.7], [0.65, 0.25, 0.6]],
    "light_curve": [[0.02, 0.31, 0.013], [0.05, 0.52, 0.127]],
    "slit": [[1.0, 2.0], [0.7, 1.0]],
    "pid_tuning": [[3.0, 1.0, 0.5], [9.0, 2.0, 0.2]],
    "robot_arm": [[0.3, -0.5, 0.8], [1.0, 0.2, -0.4]],
    "kalman_likelihood": [[-3.0, -4.0], [-2.0, -1.0]],
    "lqr_cost": [[1.0, 2.0], [3.0, 0.5]],
    "matrix_exponential": [[1.0, 0.5, 0.7], [0.3, 0.2, 1.5]],
    "spectral_fit": [[0.9, 2.0, 0.1], [0.5, 2.3, -0.2]],
    "recursive_filter": [[0.3, 2.0], [0.8, 1.5]],
    "butterworth": [[0.4, 1.0], [0.7, 2.0]],
    "image_edges": [[0.5, 2.0], [2.0, 3.5]],
    "total_variation": [[0.1 * k * (-1) ** k for k in range(9)],
        [0.3, 0.2, 0.9, 0.4, 0.8, 0.1, 0.6, 0.0, 1.0]],
    "resampled": [[0.93, 0.31], [1.17, 0.07]],
    "ray_sphere": [[0.1, -0.2, 1.3], [0.5, 0.3, 0.8]],
    "bezier": [[0, 0, 1, 2, 2, -1, 3, 0.5], [0, 1, 0.5, 0, 2, 2, 1, 0.3]],
    "polygon": [[0, 0, 2, 0.1, 1.5, 1.2, 0.3, 1.0], [0, 0, 1, 0.4, 1.5, 2.2, -0.3, 1.0]],
    "reprojection": [[1.1, 0.2], [0.9, 0.5]],
    "sdf_blend": [[0.13, 0.21, 0.3], [-0.37, 0.09, 0.5]],
    "triangle_mesh": [[0.0, 0.1, 0.3, -0.1, 0.6], [0.2, 0.5, 0.0, 0.4, 0.1]],
}  # fmt: skip
