"""Loops of random programs: numbers carried, cells written, tables, nests, `while` with break."""

import fuzz_expressions as text
from fuzz_writer import Rejected, Writer

#: Rounds of one loop.
ROUNDS = [1, 2, 3, 5, 8, 13, 20, 47, 64, 100, 150, 300]
#: Rounds of an outer and an inner loop.
NESTS = [(1, 1), (2, 3), (3, 2), (5, 5), (4, 20), (12, 12), (20, 40), (60, 5), (5, 60), (60, 60),
         (300, 5), (3, 300), (7, 150), (30, 70), (90, 9), (300, 2), (59, 11)]  # fmt: skip
BOUNDED = ["np.tanh({0})", "0.5 * {old} + 0.4 * np.sin({0})", "0.9 * np.sin({0}) - 0.1 * {old}",
           "np.minimum(np.maximum({0}, -1.0), 1.2)", "({0}) / (1.0 + np.abs({0}))"]  # fmt: skip


class LoopWriter(Writer):
    """A writer that has loops among its statements."""

    long = False

    def rounds(self) -> int:
        return self.pick(ROUNDS if self.long else ROUNDS[:7])

    def nest(self) -> tuple[int, int]:
        return self.pick(NESTS if self.long else NESTS[:6])

    def round_expression(self, operands, depth=2) -> str:
        if depth == 0:
            return self.pick(operands)
        first = self.round_expression(operands, depth - 1)
        if self.random.random() < 0.4:
            return f"({self.fill(self.pick(text.ROUND_UNARY), first)})"
        second = self.pick(operands)
        return f"({self.fill(self.pick(text.ROUND_BINARY), first, second)})"

    def bounded(self, old: str, operands) -> str:
        inner = self.round_expression(operands, self.pick([1, 2, 2]))
        return self.pick(BOUNDED).format(inner, old=old)

    def elements(self, index: str, count=3) -> list[str]:
        """Elements that rounds read: moving, going round, backwards, fixed, of matrices."""
        found = []
        for _ in range(count):
            if self.names(2) and self.random.random() < 0.2:
                name = self.pick(self.names(2))
                rows, columns = self.shape(name)
                if rows and columns:
                    found.append(f"{name}[{index} % {rows}, ({index} + 1) % {columns}]")
                continue
            name = self.pick([n for n in self.names(1) if self.shape(n)[0]])
            n = self.shape(name)[0]
            found.append(
                self.pick([
                    f"{name}[{index} % {n}]", f"{name}[{index} % {n}]",
                    f"{name}[-1 - {index} % {n}]", f"{name}[({index} * 3 + 1) % {n}]",
                    f"{name}[({index} * {index}) % {n}]", f"{name}[{self.random.randrange(n)}]",
                ])
            )  # fmt: skip
        found += self.pick([[], ["0.3"], [f"{index} * 0.01"], [f"({index} % 3) * 0.4"]])
        return found

    def keep(self, lines, *results: str, kind: str) -> bool:
        """Add a loop, and its results as variables."""
        if not self.is_tensor(" ".join(lines)):
            return False
        names = [self.new_name() for _ in results]
        made = [f"{name} = {one}" for name, one in zip(names, results, strict=True)]
        self.tensors |= set(names)
        return self.attempt(*lines, *made, kind=kind)

    def header(self, index: str, count: int) -> str:
        """A loop of so many rounds, or fewer."""
        form = self.random.random()
        if form < 0.7:
            return f"for {index} in range({count}):"
        if form < 0.8:
            return f"for {index} in range({count} - 1, -1, -1):"
        if form < 0.9:
            return f"for {index} in range(0, {count}, 2):"
        return f"for {index} in reversed(range({count})):"

    def carried(self):
        """Numbers that go from round to round; the second may see the first before or after."""
        start = self.number()
        operands = ["s", "t", *self.elements("i")]
        body = [f"s = {self.bounded('s', operands)}", f"t = {self.bounded('t', operands)}"]
        if self.random.random() < 0.3:
            body = [f"s, t = {self.bounded('s', operands)}, {self.bounded('t', operands)}"]
        body += self.pick([[], ["total = total + 0.1 * s * t"]])
        lines = [f"s, t, total = {start}, 0.2, 0.0", self.header("i", self.rounds())]
        lines += ["    " + line for line in body]
        return self.keep(lines, "0.5 * (s + t) + 0.1 * total", kind="loops")

    def cells(self):
        """Cells of a buffer written one after the other."""
        source = self.pick([n for n in self.names(1, tensors=True) if self.shape(n)[0] > 1])
        n = self.shape(source)[0]
        operands = ["b[i - 1]", "b[i]", *self.elements("i")]
        sign = self.pick(["=", "=", "+=", "*="])
        start = self.pick([f"np.zeros_like({source})", f"{source} * 0.5", f"np.cos({source})"])
        lines = [f"b = {start}", f"b[0] = {self.number()}", f"for i in range(1, {n}):"]
        lines.append(f"    b[i] {sign} {self.bounded('b[i - 1]', operands)}")
        return self.keep(lines, "b", kind="loops")

    def listed(self):
        """A list that grows; rounds read what is some places back."""
        back = self.pick([1, 1, 2, 3])
        operands = ["a[-1]", f"a[-{back}]", "a[i]", *self.elements("i")]
        lines = [f"a = [{self.number()}, 0.1, {self.number()}]", self.header("i", self.rounds())]
        lines.append(f"    a.append({self.bounded('a[-1]', operands)})")
        return self.keep(lines, "a[-1]", "np.stack(a[-3:])", kind="loops")

    def table(self):
        """A table in a list of lists, with a border; as in dynamic time warping."""
        n, m = self.nest()
        border = self.pick(["np.inf", "np.inf", "0.0", "-np.inf"])
        near = ["D[i][j + 1]", "D[i + 1][j]", "D[i][j]"]
        cost = f"0.1 * {self.round_expression([*self.elements('i', 1), *self.elements('j', 1)], 1)}"
        if self.random.random() < 0.5:
            x, y = (self.pick([v for v in self.names(1) if self.shape(v)[0]]) for _ in "xy")
            # without 0.04, vectors that share memory make elements equal, and choices not unique
            away = f"{x}[i % {self.shape(x)[0]}] - {y}[j % {self.shape(y)[0]}] + 0.04"
            cost = f"({away}) ** 2 * 0.1"
            if self.long and self.shape(x)[0] * self.shape(y)[0] <= 4000:
                n, m = self.shape(x)[0], self.shape(y)[0]
                cost = f"({x}[i] - {y}[j] + 0.04) ** 2"
        if border == "0.0":
            cell = self.bounded(self.pick(near), [*near, cost])
        else:
            choice = "np.minimum" if border == "np.inf" else "np.maximum"
            chosen = f"{choice}({choice}({near[0]}, {near[1]}), {near[2]})"
            cell = f"{cost} + {chosen}"
            if self.random.random() < 0.2:
                cell = f"{cost} + {choice[3:6]}({', '.join(near)})"
                n, m = min(n, 4), min(m, 3)
        lines = [f"D = [[{border}] * ({m} + 1) for _ in range({n} + 1)]", "D[0][0] = 0.0"]
        lines += [f"for i in range({n}):", f"    for j in range({m}):"]
        lines.append(f"        D[i + 1][j + 1] = {cell}")
        return self.keep(lines, f"0.02 * D[{n}][{m}]", f"0.02 * D[{n}][1]", kind="nested loops")

    def rows(self):
        """Two rows of a table, the next made of the one before."""
        n, m = self.nest()
        start = self.pick([v for v in self.names(1) if self.shape(v)[0]])
        size = self.shape(start)[0]
        operands = ["row[j]", "row[j - 1]", "new[-1]", *self.elements("i", 1)]
        operands += self.elements("j", 1)
        lines = [f"row = [{start}[j % {size}] for j in range({m})]", f"for i in range({n}):"]
        lines += [f"    new = [{self.number()}]", f"    for j in range(1, {m}):"]
        lines += [f"        new.append({self.bounded('row[j]', operands)})", "    row = new"]
        return self.keep(lines, "row[-1]", "sum(row) * 0.01", kind="nested loops")

    def nested(self):
        """Numbers carried through two loops: whole, triangular, strided, from the outer index."""
        n, m = self.nest()
        inner = self.pick([f"range({m})", "range(i)", "range(i + 1)", f"range(i, {n})",
                           f"range(0, {m}, 3)", f"range({m} - 1, -1, -1)", f"range(1, {m})",
                           "range(i % 4)", "range(3)"])  # fmt: skip
        if "i" in inner[6:] and n > 60:
            n = 60
        operands = ["s", "t", *self.elements("i", 2), *self.elements("j", 2)]
        lines = [f"s, t = {self.number()}, 0.2", self.header("i", n)]
        if self.random.random() < 0.5:
            lines.append(f"    t = {self.bounded('t', operands[:-2] if n > 1 else ['s', 't'])}")
            lines[-1] = lines[-1].replace("[j", "[i").replace("j %", "i %").replace("(j", "(i")
            lines[-1] = lines[-1].replace("-1 - j", "-1 - i").replace("j *", "i *")
        lines += [f"    for j in {inner}:", f"        s = {self.bounded('s', operands)}"]
        if self.random.random() < 0.5:
            lines.append(f"    t = t * 0.9 + 0.1 * {self.pick(['s', 's * t', 'np.abs(s)'])}")
        return self.keep(lines, "s + 0.3 * t", kind="nested loops")

    def until(self):
        """`while` with a break that depends on values."""
        limit, most = self.pick(["0.5", "0.8", "0.95", "-0.2"]), self.pick([2, 4, 6, 30])
        operands = ["s", *self.elements("k")]
        lines = [f"s, k = {self.number()}, 0", f"while k < {most}:"]
        lines += [f"    s = {self.bounded('s', operands)}", "    k += 1"]
        lines += [f"    if {self.pick(['s', 'np.abs(s)', 's * s'])} > {limit}:", "        break"]
        return self.keep(lines, "s * (1.0 + 0.1 * k)", kind="branches in loops")

    def choosing(self):
        """A loop of few rounds with an `if` in each."""
        operands = ["s", *self.elements("i")]
        lines = [f"s = {self.number()}", f"for i in range({self.pick([2, 3, 5])}):"]
        lines += [f"    if {self.pick(operands)} > {self.pick(['0.0', '0.4', '-0.3'])}:"]
        lines += [f"        s = {self.bounded('s', operands)}"]
        lines += self.pick([["    else:", f"        s = {self.bounded('s', operands)}"], []])
        return self.keep(lines, "s", kind="branches in loops")

    def arrays(self):
        """An array that goes from round to round, new in each or written in place."""
        like = self.pick(self.names(tensors=True))
        if 0 in self.shape(like) or not self.shape(like):
            raise Rejected
        other = self.operand(self.shape(like))
        step = self.pick([
            f"u = 0.6 * u + 0.3 * np.sin(np.roll(u, 1) * {other})",
            f"u = np.tanh(u * {other} + 0.1)", "u = u * 0.9; u[0] = u[-1]",
            f"u = np.where(u > 0.1, 0.8 * u, u * u - {other} * 0.3)",
            "u[1:] += 0.2 * np.sin(u[:-1])",
            "u[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])", f"u += 0.1 * np.cos({other})",
            "u[...] = np.sin(u[::-1])", f"u = 0.5 * u + 0.2 * np.max(u) * {other}",
            "u[i % 2] = np.tanh(np.sum(u))", "u = np.maximum(u - 0.1, -u * 0.8)",
            f"u[::2] *= np.cos({self.number()})", "u = u + 0.05 * np.sin(u * (1.0 + 0.1 * i))",
            "u = np.minimum(u, np.abs(u) ** 2 + 0.1)",
        ])  # fmt: skip
        rounds = self.rounds()
        lines = [f"u = {like} * 1.0", self.header("i", rounds), f"    {step}"]
        return self.keep(lines, "u", kind="loops of arrays")

    def summed(self):
        """A comprehension: numbers made in a list, then added or stacked."""
        operands = self.elements("i")
        made = f"[{self.round_expression(operands)} for i in range({self.rounds()})]"
        form = self.pick(["sum({}) * 0.01", "np.mean(np.stack({}))", "np.max(np.stack({}))"])
        return self.keep([f"a = {made}"], form.format("a"), kind="loops")

    LOOPS = (carried, carried, cells, listed, table, table, rows, nested, nested, until, choosing,
             arrays, arrays, summed)  # fmt: skip

    def loop(self):
        return self.pick(self.LOOPS)(self)

    def write_loops(self, count: int):
        done = 0
        for _ in range(10 * count):
            if done == count:
                return
            try:
                done += bool(self.loop())
            except Rejected:
                continue
