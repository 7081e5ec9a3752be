"""Random programs with branches and loops: text of functions f(p, q, d, m) as users write them."""

import random

NAMES = "vwxyz"
#: What the text is made of; {a}, {b}, {c} are operands.
EXPRESSIONS = [
    "{a}", "0.5 * {a} + 0.4 * {b}", "math.sin({a} * {b})", "({a} if {b} > {c} else 0.9 * {a})",
    "min({a}, {b} + 0.1 * p)", "max({a}, {b}, 0.2 * q)", "abs({a} - {b})", "np.tanh({a} + {b})",
    "math.exp(-abs({a}))", "{a} / (1.0 + {b} ** 2)",
    # a number: recorded `where` gives no array, which two names would share (docs/limits.md)
    "1.0 * np.where({a} > {b}, {a}, 0.5 * {b})",
    "bend({a}, {b})", "bend({a} * 0.5, p)", "np.minimum({a}, {b})", "-{a}", "follow({a})",
    "np.sqrt(1 + {a} ** 2)", "sum(0.1 * {a} * u for u in d if u > 0)", "np.arctan({a}) * {b}",
    "sum([u * 0.1 if u > {a} else 0.05 * {b} for u in d])", "(lambda u: u * {a} * 0.5)({b})",
    "kept[-1] * 0.5", "kept[n % len(kept)]", "table['s'] * 0.3", "box.value * 0.7", "0.1 * n * {a}",
    "round(n / 3) * 0.1 * {a}", "m[n % m.shape[0], 0] * {a}", "np.tanh(cells[n % 3] + {a})",
    "0.1 * t", "np.tanh(np.sum(m[0] * {a}))", "0.2 * len(kept) * q", "(n // 2 - n % 3) * 0.1 * p",
    "step({a})", "steps[n % 3]({a})", "table.get('e', {a}) * 0.5", "float(d[n % len(d)]) * {a}",
    "np.max(m * {a}, axis=0)[n % 3] * 0.5", "np.tanh(np.min(np.sum(m * {a}, axis=1)))",
    "m[np.argmax(m[:, n % 3]), 0] * {a}", "0.3 * table[mode]", "np.mean(np.maximum(cells, {a}))",
    "either.value * 0.4", "sum(kept[:2]) * 0.3", "sum([u * 0.1 for u in reversed(kept)])",
]  # fmt: skip
#: The same with SciPy's functions.
SCIPY = [
    "special.ndtr({a})", "0.2 * special.gammaln(1.5 + {a} ** 2)", "special.expit({a} - {b})",
    "special.gammainc(1.2 + abs({b}), abs({a}))", "special.i0e({a}) * {b}", "special.erf({a})",
    "0.1 * stats.norm.logpdf({a}, {b}, 1.3)", "stats.norm.cdf({a} - {b})", "stats.t.cdf({a}, 3.0)",
    "0.1 * stats.expon.logpdf(abs({a}), scale=1.5)", "stats.beta.cdf({a}, 2.0, 3.0)",
    "0.3 * stats.gamma.sf({a}, 2.0 + abs({b}))", "frozen.cdf({a}) * {b}", "0.3 * spline({a})",
    "0.2 * stats.norm.ppf(0.5 + 0.3 * np.tanh({a}))", "0.3 * spline.derivative()({a})",
    "np.tanh(np.sum(ndimage.gaussian_filter1d(m * {a}, 0.8)))", "stats.uniform.pdf({a}) * {b}",
    "np.tanh(np.max(ndimage.maximum_filter1d(cells + {a}, 3)))", "np.tanh(spline(m * {a})[0, 0])",
    "np.tanh(np.sum(cdist(m, m * {a} + 0.7)))", "0.1 * special.logsumexp(m * {a})",
    "stats.poisson.cdf(n, 0.5 + {a} ** 2)", "0.1 * stats.skew(m[0] * {a} + cells)",
]  # fmt: skip
#: Roots, integrals and solutions of equations, which there are for all operands.
SOLVED = [
    "optimize.brentq(lambda r: r + 0.3 * np.sin(r) - np.tanh({a}), -3.0, 3.0, xtol=1e-14)",
    "optimize.brentq(lambda r: r + (0.3 * r if r > 0.1 * p else 0.03 * p) - np.tanh({a} - {b}),"
    " -4.0, 4.0, xtol=1e-14)",
    "optimize.newton(lambda r, s: r + 0.5 * np.tanh(r * s) - np.tanh({a}), 0.1,"
    " args=(0.5 + q ** 2 / (1 + q ** 2),), tol=1e-13)",
    "optimize.root(lambda r: [r[0] + 0.3 * np.tanh(r[1]) - np.tanh({a}),"
    " r[1] - 0.3 * np.tanh(r[0] + q) - np.tanh({b})], [0.0, 0.0], tol=1e-13).x[n % 2]",
    "optimize.root_scalar(lambda r: r ** 3 + r - np.tanh({a}), bracket=(-2, 2), xtol=1e-14).root",
    "optimize.fixed_point(lambda r: 0.4 * np.cos(r + {a}), 0.1, xtol=1e-14, method='iteration')",
    "integrate.quad(lambda r: np.exp(-r * np.tanh({a})) * np.tanh({b}), 0.0, 1.0)[0]",
    "integrate.quad(lambda r, s: s * np.cos(r + q), np.tanh({a}), 1.5, args=(np.tanh({b}),))[0]",
    "integrate.quad(lambda r: np.exp(-r * (1 + np.tanh({a}) ** 2)), 0.5, np.inf)[0]",
    "integrate.fixed_quad(lambda r: np.sin(r * np.tanh({a})), 0.0, 1.0 + np.tanh({b}) ** 2)[0]",
    "0.2 * integrate.simpson(np.tanh(m[0] * {a}), dx=0.5)",
    "integrate.solve_ivp(lambda s, y: [np.tanh({a}) - y[0], np.sin(y[0]) - y[1] * np.tanh({b})],"
    " (0.0, 1.0), [np.tanh(q), 0.2]).y[n % 2, -1]",
    "optimize.brentq(lambda r: r - integrate.quad(lambda s: 0.3 * np.cos(r * s), 0.0, 1.0)[0]"
    " - np.tanh({a}), -3.0, 3.0, xtol=1e-14)",
    "integrate.quad(lambda s: optimize.brentq(lambda r: r + np.tanh(r * s) - np.tanh({a}),"
    " -3.0, 3.0, xtol=1e-14), 0.0, 1.0)[0]",
]  # fmt: skip
CONDITIONS = [
    "{a} < {b}", "{a} > {b} + 0.2 * p", "{a} <= 0.3", "-0.5 < {a} < {b}", "{a} > 0 and {b} < 1",
    "{a} > 1 or {b} < -1", "not {a} > {b}", "n % 2", "n > 3", "n % 3 == 1", "flag", "not flag",
    "flag and {a} > 0", "len(kept) > 4", "t > 0.5", "box.count < 3", "'e' in table",
    "abs({a}) >= abs({b})", "mode == 's'", "'e' not in table and {a} < {b}", "either is box",
    "np.any(m > {a})", "np.all(cells < {a}) or flag", "step is math.sin",
]  # fmt: skip
STATEMENTS = [
    "{x} = {e}", "{x} = {e}", "{x} = {e}", "{x} += 0.5 * ({e})", "{x}, {y} = {y}, {x}", "n += 1",
    "n -= 1", "t += 0.3", "t = 0.5 * t", "flag = not flag", "flag = bool({k})", "kept.append({e})",
    "kept[0] = {e}", "box.value = {e}", "box.count += 1", "table['s'] = {e}", "table['e'] = {e}",
    "cells[n % 3] = {e}", "{x}, {y} = {e}, {a}", "n = int(abs({a}) * 2) % 5",
    "{x} = kept.pop() if len(kept) > 1 else {e}", "{x} = kept.pop(0) if len(kept) > 2 else {e}",
    "kept.insert(n % 4, {e})", "kept = kept[1:] + [{e}]", "kept = [{e}, {a}]", "step = math.sin",
    "step = follow if {k} else bend_1", "mode = 'e' if 'e' in table else 's'", "table[mode] = {e}",
    "{x} = table.pop('e', {a})", "either = other if {k} else box", "either.value = {e}",
    "steps = steps[1:] + steps[:1]", "cells = np.maximum(cells, {e})", "m = m * 0.9",
]  # fmt: skip
LOOPS = [
    "for i in range(3):", "for i in range(len(d)):", "for i, u in enumerate(d):", "for u in d:",
    "for i in range(len(d) - 1, -1, -2):", "for u, g in zip(d, reversed(range(6))):",
    "for i in range(1 + n % 4):", "for g in list(kept[:3]):", "for row in m:",
    "for u in (g * p for g in d):", "for i in range(0, len(d), 2):",
]  # fmt: skip
HEAD = """\
class Box:
    pass

def bend(u, g):
    if u > g:
        return g + 0.5 * (u - g)
    if u < -1:
        return -1.0
    return u

def bend_1(u):
    return bend(u, 0.4)

def f(p, q, d, m):
    v, w, x, y, z = p, q, p * q, 0.3, 1.0
    n, t, flag, i, u, g = 0, 0.0, False, 0, p, q
    kept, table, box = [p, q], {'s': p}, Box()
    box.value, box.count = q, 0
    mode, other = 's', Box()
    other.value, either = 0.5 * p, box
    cells = np.zeros(3)
    def follow(u):
        nonlocal z
        if u > z:
            z = 0.9 * z + 0.1 * u
        return z * 0.5
    step, steps = bend_1, [bend_1, follow, np.tanh]
"""
TAIL = """\
    total = v + 0.5 * w - x + 0.3 * y + z * p + sum(kept) * 0.1 + np.sum(cells) * 0.1
    return np.tanh(0.1 * (total + table['s'] + box.value + other.value)) + 0.01 * n * q
"""


class Writer:
    """Writes the lines of one program."""

    def __init__(self, seed: int, has_scipy: bool = False):
        self.expressions = [*EXPRESSIONS, *SCIPY, *SCIPY, *SOLVED] if has_scipy else EXPRESSIONS
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.whiles = 0

    def pick(self, among):
        return self.random.choice(among)

    def operand(self) -> str:
        rows = ["u", "d[i % len(d)]", "d[(i + 1) % len(d)]", "d[-1]", "p", "q", "0.5", "1.3"]
        return self.pick(NAMES) if self.random.random() < 0.65 else self.pick(rows)

    def fill(self, text: str) -> str:
        x, y = self.random.sample(NAMES, 2)
        given = {name: self.operand() for name in "abc"}
        if "{e}" in text:
            given["e"] = self.fill(self.pick(self.expressions))
        if "{k}" in text:
            given["k"] = self.fill(self.pick(CONDITIONS))
        return text.format(x=x, y=y, **given)

    def put(self, indent: int, text: str):
        self.lines.append("    " * indent + text)

    def block(self, indent: int, depth: int):
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if depth == 0 or kind < 0.5:
                self.put(indent, self.fill(self.pick(STATEMENTS)))
            elif kind < 0.75:
                self.branch(indent, depth)
            else:
                self.loop(indent, depth)

    def branch(self, indent: int, depth: int):
        self.put(indent, f"if {self.fill(self.pick(CONDITIONS))}:")
        self.block(indent + 1, depth - 1)
        if self.random.random() < 0.25:
            self.put(indent, f"elif {self.fill(self.pick(CONDITIONS))}:")
            self.block(indent + 1, depth - 1)
        if self.random.random() < 0.5:
            self.put(indent, "else:")
            self.block(indent + 1, depth - 1)

    def loop(self, indent: int, depth: int):
        """A `for`, or a `while` with a counter that ends it; sometimes left early."""
        if self.random.random() < 0.25:
            self.whiles += 1
            count = f"c{self.whiles}"
            self.put(indent, f"{count} = 0")
            self.put(indent, f"while {count} < 6 and ({self.fill(self.pick(CONDITIONS))}):")
            self.put(indent + 1, f"{count} += 1")
        else:
            self.put(indent, self.pick(LOOPS))
        self.block(indent + 1, min(depth - 1, 1))
        if self.random.random() < 0.4:
            self.put(indent + 1, f"if {self.fill(self.pick(CONDITIONS))}:")
            self.put(indent + 2, self.pick(["break", "continue", f"return 0.1 * {self.operand()}"]))
            self.put(indent + 1, self.fill(self.pick(STATEMENTS)))
        if self.random.random() < 0.15:
            self.put(indent, "else:")
            self.put(indent + 1, self.fill(self.pick(STATEMENTS)))


def source(seed: int, has_scipy: bool = False) -> str:
    """The text of the program of a seed: bounded values, loops of few rounds."""
    writer = Writer(seed, has_scipy)
    for _ in range(2):
        writer.block(1, 3)
    return HEAD + "\n".join(writer.lines) + "\n" + TAIL
