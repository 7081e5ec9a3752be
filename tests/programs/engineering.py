"""Structures, filters, controllers, networks."""

import logging

import tapegrad.math as math
import tapegrad.numpy as np

log = logging.getLogger("plant")


def truss_compliance(areas):
    """Assembled stiffness of a small truss; work of the loads."""
    nodes = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    bars = [(0, 1), (1, 3), (0, 3), (2, 3), (1, 2)]
    K = np.zeros((8, 8))
    for area, (i, j) in zip(areas, bars):
        d = nodes[j] - nodes[i]
        length = np.sqrt(d @ d)
        c, s = d / length
        k = area / length * np.array([[c * c, c * s], [c * s, s * s]])
        dofs = [2 * i, 2 * i + 1, 2 * j, 2 * j + 1]
        K[np.ix_(dofs, dofs)] += np.block([[k, -k], [-k, k]])
    load = np.zeros(8)
    load[3] = -1.0
    load[6] = 0.4
    free = np.setdiff1d(np.arange(8), [0, 1, 4, 5])
    u = np.zeros(8)
    u[free] = np.linalg.solve(K[np.ix_(free, free)], load[free])
    return load @ u


def kalman_loglik(noise):
    """Local linear trend: predict, update, with gaps in the data."""
    q_level, q_slope, r = np.exp(noise)
    F = np.array([[1.0, 1.0], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = np.diag([q_level, q_slope])
    state = np.zeros(2)
    P = np.eye(2) * 10.0
    loglik = 0.0
    for y in [0.1, 0.4, None, 1.3, 1.1, 2.0, None, 2.2]:
        state = F @ state
        P = F @ P @ F.T + Q
        if y is None:
            continue
        innovation = y - (H @ state)[0]
        S = (H @ P @ H.T)[0, 0] + r
        gain = np.linalg.solve(np.array([[S]]), H @ P).T
        state = state + gain[:, 0] * innovation
        P = (np.eye(2) - gain @ H) @ P
        loglik -= 0.5 * (np.log(2 * np.pi * S) + innovation**2 / S)
    return loglik


class PID:
    def __init__(self, kp, ki, kd, limit=2.0):
        self.kp, self.ki, self.kd, self.limit = kp, ki, kd, limit
        self.integral = 0.0
        self.last = None

    def __call__(self, error, dt):
        derivative = 0.0 if self.last is None else (error - self.last) / dt
        self.last = error
        candidate = self.integral + error * dt
        out = self.kp * error + self.ki * candidate + self.kd * derivative
        if abs(out) > self.limit:  # no wind-up
            log.debug("saturated at %.2f", out)
            return math.copysign(self.limit, out)
        self.integral = candidate
        return out


def control_cost(gains):
    controller = PID(*gains)
    level, flow, cost, dt = 0.0, 0.0, 0.0, 0.1
    messages = []
    for step in range(40):
        error = 1.0 - level
        signal = controller(error, dt)
        flow += dt * (signal - flow)
        level += dt * flow
        cost += dt * (error**2 + 0.01 * signal**2)
        if step % 20 == 0:
            messages.append(f"{step:3d} {level:.4f} {signal:+.2f}")
    log.info("\n".join(messages))
    return cost


def friction_factor(reynolds, roughness):
    if reynolds < 2300:
        return 64 / reynolds
    f = 0.02
    for _ in range(50):
        rhs = -2 * np.log10(roughness / 3.7 + 2.51 / (reynolds * np.sqrt(f)))
        new = 1 / rhs**2
        if np.abs(new - f) < 1e-15:
            break
        f = new
    return f


def pipe_losses(flows):
    """Head lost in pipes in a row, laminar or turbulent; litres a second."""
    diameters = [0.1, 0.05, 0.2]
    total = 0.0
    for q, d in zip(flows, diameters):
        velocity = 4 * 1e-3 * q / (math.pi * d**2)
        re = velocity * d / 1e-6
        total += friction_factor(re, 1e-4) * 10 / d * velocity**2 / (2 * 9.81)
    return total


def smoothed_signal(taps):
    """FIR filter, envelope and moving average; the loudest stretch."""
    t = np.arange(24) / 8.0
    signal = np.sin(2 * np.pi * t) + 0.3 * np.cos(7 * t)
    filtered = np.convolve(signal, taps, mode="same")
    power = filtered**2
    window = np.ones(4) / 4
    smooth = np.convolve(power, window, "valid")
    return 10 * np.log10(smooth.max()) + np.sqrt(np.mean(power))


def pump_power(speed_and_valve):
    """Characteristic curve by table and by polynomial, efficiency piecewise."""
    speed, valve = speed_and_valve
    q = np.linspace(0.5, 3.5, 7) * speed
    head = speed**2 * np.polyval([-0.8, 0.3, 12.0], q / speed)
    table_q, table_loss = [0.0, 1.0, 2.0, 4.0], [0.0, 0.7, 2.9, 11.5]
    loss = np.interp(q, table_q, table_loss) / valve
    eta = np.piecewise(
        q,
        [q < 1.0, q >= 2.5],
        [lambda q: 0.4 * q, lambda q: 0.9 - 0.1 * q, lambda q: 0.3 + 0.1 * q],
    )
    cost = np.select([head > loss + 4, head > loss], [1.0 * q, 1.5 * q], default=3.0)
    return np.sum((head - loss) * q / eta) / 10 + np.sum(cost)


def reservoir(policy):
    """A year of a dam: dicts of lists, floors and spills, a report."""
    inflow = [4.0, 6.5, 9.0, 7.0, 3.0, 1.0, 0.5, 0.4, 1.2, 2.5, 5.0, 6.0]
    storage, books = 10.0, {"spill": [], "power": [], "short": []}
    for month, water in enumerate(inflow):
        release = policy["base"] + policy["share"] * max(storage - policy["reserve"], 0)
        available = storage + water
        if release > available:
            books["short"].append(release - available)
            release = available
        storage = available - release
        spill = max(0.0, storage - 15.0)
        storage -= spill
        books["spill"].append(spill)
        books["power"].append(release * math.sqrt(storage + 5.0))
    report = ", ".join(f"{key}: {sum(entries):.1f}" for key, entries in books.items())
    assert "power" in report
    return sum(books["power"]) - 2 * sum(books["spill"]) - 10 * sum(s**2 for s in books["short"])


def bearing_temperature(inputs):
    """Secant search for the balance of heat; keyword defaults and tuples around it."""

    def balance(temperature, load=1.0, ambient=20.0):
        viscosity = 0.1 * np.exp(-0.03 * (temperature - 20.0))
        return load * viscosity * 900.0 - inputs[1] * (temperature - ambient)

    lo, hi = 20.0, 120.0
    f_lo, f_hi = balance(lo, inputs[0]), balance(hi, inputs[0])
    for n in range(100):
        mid = hi - f_hi * (hi - lo) / (f_hi - f_lo)
        f_mid = balance(mid, load=inputs[0])
        if np.isclose(f_mid, 0.0, atol=1e-12):
            break
        lo, f_lo, hi, f_hi = hi, f_hi, mid, f_mid
    return mid


def filter_mismatch(coefficients):
    """A filter of second order beside the wanted response, by its transfer function."""
    b, a = np.append(coefficients[:2], 0.25), np.append([1.0], coefficients[2:])
    z = np.exp(-1j * np.linspace(0.1, 3.0, 9))
    response = np.polyval(b[::-1], z) / np.polyval(a[::-1], z)
    wanted = np.where(np.arange(9) < 4, 1.0, 0.0)
    ripple = np.sum((np.abs(response) - wanted) ** 2)
    poles = np.polymul(a, np.conj(a) + 0.1j)
    return ripple + 0.1 * np.unwrap(np.angle(response))[-1] + np.abs(np.polyder(poles)).sum()
