"""Simulations: steps that adapt, events, collisions, modes that switch."""

import tapegrad.math as math
import tapegrad.numpy as np

from .cases import cases, numbers, uniform


def heun(k, y):
    """Steps that adapt, with a step and a time that are floats at first."""
    t, h, steps = 0.0, 0.1, 0
    while t < 2:
        if t + h > 2:
            h = 2 - t
        first = math.sin(3 * t) - k * k * y
        second = math.sin(3 * (t + h)) - k * k * (y + h * first)
        if abs(0.5 * h * (second - first)) < 1e-2:
            y = y + 0.5 * h * (first + second)
            t += h
            h *= 1.5
        else:
            h *= 0.5
        steps += 1
    return y


def heun_of_error(k, y):
    """The step follows the error, so that it depends on what is differentiated."""
    t, h = 0.0 * k, 0.2 + 0.0 * k
    for _ in range(200):
        if t >= 1.5:
            break
        h = min(h, 1.5 - t)
        first = math.cos(t) - k * k * y
        second = math.cos(t + h) - k * k * (y + h * first)
        error = abs(0.5 * h * (second - first)) + 1e-9
        if error <= 5e-3:
            t, y = t + h, y + 0.5 * h * (first + second)
        h = h * min(2.0, max(0.3, 0.9 * (5e-3 / error) ** 0.5))
    return y


def rates(state, mu):
    x, v = state
    return np.array([v, mu * (1 - x * x) * v - x])


def rk45(start, mu, end=1.5, tolerance=1e-4):
    """Dormand and Prince's method for van der Pol's oscillator, by arrays of two states."""
    y, t, h = start, 0.0, 0.3
    k1 = rates(y, mu)
    while t < end:
        h = min(h, end - t)
        k2 = rates(y + h * k1 / 5, mu)
        k3 = rates(y + h * (3 * k1 / 40 + 9 * k2 / 40), mu)
        k4 = rates(y + h * (44 * k1 / 45 - 56 * k2 / 15 + 32 * k3 / 9), mu)
        k5 = rates(
            y + h * (19372 * k1 / 6561 - 25360 * k2 / 2187 + 64448 * k3 / 6561 - 212 * k4 / 729),
            mu,
        )
        k6 = rates(
            y + h * (9017 * k1 / 3168 - 355 * k2 / 33 + 46732 * k3 / 5247 + 49 * k4 / 176
                     - 5103 * k5 / 18656), mu
        )  # fmt: skip
        new = y + h * (35 * k1 / 384 + 500 * k3 / 1113 + 125 * k4 / 192 - 2187 * k5 / 6784
                       + 11 * k6 / 84)  # fmt: skip
        k7 = rates(new, mu)
        error = h * (71 * k1 / 57600 - 71 * k3 / 16695 + 71 * k4 / 1920 - 17253 * k5 / 339200
                     + 22 * k6 / 525 - k7 / 40)  # fmt: skip
        norm = np.max(np.abs(error)) / tolerance
        if norm <= 1:
            t, y, k1 = t + h, new, k7
        h *= min(4.0, max(0.2, 0.9 * (norm + 1e-12) ** -0.2))
    return y[0] + 0.5 * y[1]


def fehlberg(x, v, mu, end=1.0, tolerance=1e-4):
    """Bogacki and Shampine's method of orders 3 and 2, number by number."""
    t, h = 0.0, 0.2
    while t < end:
        if t + h > end:
            h = end - t
        a1, b1 = v, mu * (1 - x * x) * v - x
        x2, v2 = x + 0.5 * h * a1, v + 0.5 * h * b1
        a2, b2 = v2, mu * (1 - x2 * x2) * v2 - x2
        x3, v3 = x + 0.75 * h * a2, v + 0.75 * h * b2
        a3, b3 = v3, mu * (1 - x3 * x3) * v3 - x3
        xn = x + h * (2 * a1 + 3 * a2 + 4 * a3) / 9
        vn = v + h * (2 * b1 + 3 * b2 + 4 * b3) / 9
        a4, b4 = vn, mu * (1 - xn * xn) * vn - xn
        ex = h * (-5 * a1 / 72 + a2 / 12 + a3 / 9 - a4 / 8)
        ev = h * (-5 * b1 / 72 + b2 / 12 + b3 / 9 - b4 / 8)
        if abs(ex) + abs(ev) < tolerance:
            t, x, v = t + h, xn, vn
            h *= 1.4
        else:
            h *= 0.5
    return x + 0.3 * v


def bouncing_ball(height, speed, restitution=0.8):
    """The time of each bounce is solved for; the ball rests once it is slow."""
    t, bounces = 0.0, 0
    while t < 3.0:
        flight = (speed + math.sqrt(speed * speed + 2 * 9.81 * height)) / 9.81
        if t + flight > 3.0:
            rest = 3.0 - t
            return height + speed * rest - 0.5 * 9.81 * rest * rest
        t = t + flight
        speed = restitution * (9.81 * flight - speed)
        height = 0.0
        bounces += 1
        if speed < 0.5 or bounces == 12:
            return speed * t
    return height


def ball_by_steps(height, speed, restitution):
    """The same by small steps, with a reflection where a step ends below the floor."""
    dt = 0.05
    for _ in range(40):
        speed = speed - 9.81 * dt
        height = height + dt * speed
        if height < 0:
            height, speed = -restitution * height, -restitution * speed
            if speed < 0.3:
                break
    return height + 0.1 * speed


def discs(positions, velocities, radius):
    """Discs that exchange momenta where they meet, in a box."""
    n, dt = len(positions) // 2, 0.05
    x, y = [positions[2 * i] for i in range(n)], [positions[2 * i + 1] for i in range(n)]
    u, v = [velocities[2 * i] for i in range(n)], [velocities[2 * i + 1] for i in range(n)]
    for _ in range(3):
        for i in range(n):
            x[i] = x[i] + dt * u[i]
            y[i] = y[i] + dt * v[i]
            if x[i] < 0 or x[i] > 4:
                u[i] = -u[i]
            if not 0 < y[i] < 4:
                v[i] = -v[i]
        for i in range(n):
            for j in range(i):
                dx, dy = x[i] - x[j], y[i] - y[j]
                distance = dx * dx + dy * dy
                if distance > 4 * radius * radius:
                    continue
                towards = (u[i] - u[j]) * dx + (v[i] - v[j]) * dy
                if towards < 0:
                    p = towards / distance
                    u[i], u[j] = u[i] - p * dx, u[j] + p * dx
                    v[i], v[j] = v[i] - p * dy, v[j] + p * dy
    return sum(x[i] * u[i] + y[i] * v[i] for i in range(n))


def thermostat(gain, loss, outside):
    """A heater that switches at two temperatures: a flag outlives the round."""
    temperature, heating, energy = 18.0, False, 0.0
    for o in outside:
        if temperature < 19:
            heating = True
        elif temperature > 21:
            heating = False
        power = gain if heating else 0.0
        temperature = temperature + power - loss * (temperature - o)
        energy += power
    return temperature + 0.1 * energy


def friction(mu, stiffness, drive):
    """A mass on a belt sticks until the spring is stronger than friction."""
    x, v, mode = 0.0, 0.0, "stick"
    for f in drive:
        force = f - stiffness * x
        if mode == "stick":
            if abs(force) > 1.2 * mu:
                mode = "slip"
            else:
                x = x + 0.05
        if mode == "slip":
            before = v
            v = v + 0.1 * (force - mu * (1 if v > 0 else -1))
            x = x + 0.1 * v
            if before * v < 0:
                mode, v = "stick", 0.0
    return x + v


def oscillator(rng):
    return rng.normal(0.0, 1.5, 2), uniform(rng, 0.1, 2.0)


def ball(rng):
    return uniform(rng, 0.2, 3), uniform(rng, -2, 4), uniform(rng, 0.4, 0.9)


def box(n):
    def make(rng):
        return rng.uniform(0.2, 3.8, 2 * n), rng.normal(0, 3, 2 * n), uniform(rng, 0.1, 0.4)

    return make


def weather(rng):
    return uniform(rng, 1, 4), uniform(rng, 0.05, 0.3), rng.normal(8.0, 5.0, 30)


def excited(rng):
    return uniform(rng, 0.3, 1), uniform(rng, 0.5, 2), rng.normal(0.3, 1.2, 25)


CASES = cases(
    (heun, numbers(2), dict(calls=60)),
    (heun_of_error, numbers(2), dict(calls=60)),
    (rk45, oscillator, dict(calls=12)),
    (fehlberg, numbers(3), dict(argnums=(0, 1, 2), calls=20)),
    (bouncing_ball, ball, dict(argnums=(0, 1, 2))),
    (ball_by_steps, ball, dict(argnums=(0, 1, 2))),
    (discs, box(5), dict(argnums=(0, 1, 2), calls=40)),
    (discs, box(20), dict(name="discs_20", argnums=(0, 1), calls=5, second=False)),
    (thermostat, weather),
    (friction, excited),
)
