"""Motion, heat, light."""

import tapegrad.math as math
import tapegrad.numpy as np


def pendulum(params, steps=40, dt=0.05):
    """Runge-Kutta on np.array([angle, speed]); energy at the end."""
    length, damping, theta0 = params

    def rhs(state):
        theta, omega = state
        return np.array([omega, -9.81 / length * np.sin(theta) - damping * omega])

    state = np.array([theta0, 0.0])
    for _ in range(steps):
        k1 = rhs(state)
        k2 = rhs(state + 0.5 * dt * k1)
        k3 = rhs(state + 0.5 * dt * k2)
        k4 = rhs(state + dt * k3)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return 0.5 * (length * state[1]) ** 2 + 9.81 * length * (1 - math.cos(state[0]))


def orbit(positions, masses=(1.0, 0.3, 0.1), dt=0.02):
    """Leapfrog for three bodies, forces filled in pairs."""
    x = np.array(positions, dtype=float)
    m = np.asarray(masses)
    v = np.zeros_like(x)
    v[1, 1] = 0.9
    n = len(m)

    def acceleration(x):
        a = np.zeros((n, 2))
        for i in range(n):
            for j in range(i + 1, n):
                d = x[j] - x[i]
                r3 = (d @ d + 0.01) ** 1.5
                a[i] += m[j] * d / r3
                a[j] -= m[i] * d / r3
        return a

    for _ in range(10):
        v += 0.5 * dt * acceleration(x)
        x += dt * v
        v += 0.5 * dt * acceleration(x)
    kinetic = 0.5 * np.sum(m[:, None] * v**2)
    potential = 0.0
    for i in range(n):
        for j in range(i):
            potential -= m[i] * m[j] / np.linalg.norm(x[i] - x[j])
    return kinetic + potential


def cooling_rod(initial, diffusivity=0.2, steps=15):
    """Explicit heat equation, updated in place, with a thermostat."""
    u = np.zeros(len(initial) + 2)
    u[1:-1] = initial
    spent = 0.0
    for step in range(steps):
        u[1:-1] += diffusivity * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = u[1]
        u[-1] = 0.5
        if u.mean() < 0.55:
            u[2] += 0.3
            spent += 0.3 * u[2]
    return np.sum(u[1:-1] ** 2) + spent


def magnetisation(params):
    """Mean field of a magnet: fixed point to convergence."""
    coupling, field = params["J"], params["h"]
    m = 1.0
    count = 0
    while count < 1000:
        new = math.tanh(4 * coupling * m + field)
        count += 1
        if abs(new - m) < 1e-14:
            m = new
            break
        m = new
    return m


class TotalReflection(Exception):
    pass


def refract(angle, n1, n2):
    s = n1 / n2 * math.sin(angle)
    if abs(s) > 1.0:
        raise TotalReflection(f"sin = {s:.3f}")
    return math.asin(s)


def layered_path(layers):
    """Where a ray leaves a stack of plates; reflected rays walk back."""
    angle, x = math.radians(35.0), 0.0
    indices = [1.0] + list(layers)
    for n1, n2 in zip(indices[:-1], indices[1:]):
        try:
            angle = refract(angle, n1, n2)
        except TotalReflection:
            angle = -angle
        x += math.tan(angle) * 0.5
    return math.hypot(x, 1.0) + 0.1 * math.degrees(angle)


def predator_prey(rates, tol=1e-4):
    """Adaptive Heun: a step is taken again with half its length where it is too rough."""
    a, b, c, d = rates
    y = np.array([1.0, 0.6])
    t, h, rejected = 0.0, 0.2, 0

    def f(y):
        return np.array([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])

    while t < 2.0:
        h = min(h, 2.0 - t)
        k1 = f(y)
        k2 = f(y + h * k1)
        error = 0.5 * h * np.max(np.abs(k2 - k1))
        if error > 0.02:
            h = h / 2
            rejected += 1
            continue
        y = y + 0.5 * h * (k1 + k2)
        t = t + h
        if error < 0.005:
            h = 2 * h
    return y[0] * y[1] + 0.01 * rejected


def diffraction(widths):
    """Intensity of slits on a screen, complex sums written as real ones."""
    screen = np.linspace(-0.3, 0.3, 13)
    re, im = np.zeros(13), np.zeros(13)
    for k, w in enumerate(widths):
        phase = 2 * np.pi * (k * 2.0) * np.sin(screen)
        amplitude = w * np.sinc(w * np.sin(screen))
        re += amplitude * np.cos(phase)
        im += amplitude * np.sin(phase)
    intensity = re**2 + im**2
    return np.trapezoid(intensity, screen) / intensity.max()


def charge_density(weights):
    """Potential on a grid by meshgrid, its field by differences."""
    gx, gy = np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 4))
    places = [(0.2, 0.3), (0.7, 0.8), (0.5, 0.1)]
    v = sum(
        w / np.sqrt((gx - px) ** 2 + (gy - py) ** 2 + 0.05) for w, (px, py) in zip(weights, places)
    )
    ey, ex = np.gradient(-v, 1 / 3, 0.25)
    return np.mean(ex**2 + ey**2)
