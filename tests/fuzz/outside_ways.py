"""Ten ways in which data lie outside of a function, as text of the grammar of random_outside.py."""

from typing import NamedTuple


class Way(NamedTuple):
    """How data lie outside, and the text that reads them; {v} is a float, {j} an index.

    `effects` change what no other text but `reads` reads. `state` is that, as an expression and the
    statement that restores it from `s`.
    """

    data: str
    expressions: list
    conditions: list
    loops: list
    changes: list
    effects: list = []
    reads: list = []
    state: tuple = ()


CLASSES = """\
import collections, dataclasses, enum, functools, logging, types
import numpy

class Child:
    def __init__(self):
        self.gain, self.on = 0.6, True

class Model:
    bias, total, kind = 0.2, 0, 'soft'
    def __init__(self):
        self.rate, self.limit, self.child = 0.7, 2, Child()
        self.data, self.table = numpy.array([0.4, -0.9, 1.3]), [0.3, 1.1]
        self.count, self.log, self.last = 0, [], None
    @property
    def twice(self):
        return 2.0 * self.rate
    def penalty(self, u):
        return self.rate * u if u > 0 else -0.5 * u
    def note(self, u):
        self.log.append(u)
        return 0.9
    def __call__(self, u):
        return 0.5 * self.penalty(u - self.bias)

class Other(Model):
    def penalty(self, u):
        return 0.3 * u if u > self.bias else self.rate * u

class Kind(enum.Enum):
    SOFT = 1
    HARD = 2

@dataclasses.dataclass
class Settings:
    width: float = 0.35
    steps: int = 2
    calls: int = 0
    kind: Kind = Kind.SOFT
    gain: list = dataclasses.field(default_factory=lambda: [1.0, -0.5, 0.8])
    def scaled(self, u):
        return u * self.width if u > self.width else u * self.gain[0]

@dataclasses.dataclass(frozen=True)
class Spec:
    rate: float = 0.4
    order: int = 3
    part: Settings = dataclasses.field(default_factory=Settings)

@dataclasses.dataclass(slots=True)
class Slots:
    low: float = -0.3
    high: float = 0.9

Point = collections.namedtuple('Point', 'x y')

def doubled(u):
    return 2.0 * u if u < 0.5 else 1.0 + 0.1 * u

def halved(u):
    return 0.5 * u

def of_module(u):
    return RATE * u if u > CUT else CUT * u

def made(scale, table):
    hits = 0
    def bent(u):
        return scale * u if u > table[0] else 0.5 * u
    def at(i, by=1.0):
        return table[i % len(table)] * by
    def counted(u, *, weight=0.8):
        nonlocal hits
        hits = hits + 1
        return u * weight
    def late():
        return hits % 7 > 4
    def rescale(v):
        nonlocal scale
        scale = v
    def reset(v):
        nonlocal hits
        hits = v
    return bent, at, counted, late, rescale, reset, lambda: hits
"""
WAYS = {
    "counter": Way(
        "calls, stats, count = [0], {'n': 0, 'scale': 0.6, 'last': None}, 0",
        ["stats['scale'] * {a}"],
        ["{a} > stats['scale']"],
        [],
        ["calls[0] = 0", "stats['scale'] = {v}", "stats['n'] = 0", "count = 0", "calls = [5]"],
        [
            "calls[0] += 1", "stats['n'] += 1", "count += 1", "stats['last'] = {a}",
            "stats['seen'] = stats.get('seen', 0) + 1", "stats['n'], calls[0] = n, calls[0] + 1",
            "if calls[0] % 3 == 0:\n    stats['n'] += 1", "calls[0] = max(calls[0], n)",
            "if {k}:\n    calls[0] += 1\nelse:\n    count -= 1",
        ],
        [
            "0.1 * (calls[0] % 7) * {a}", "({a} if calls[0] > 6 else 0.5 * {b})",
            "({a} if stats['n'] % 4 == 3 else {b})", "(0.9 if count % 9 > 5 else 1.0) * {a}",
        ],
        ("list(calls), stats['n'], stats.get('seen', 0), count",
         "calls[:], stats['n'], stats['seen'], count = s"),
    ),
    "history": Way(
        "history, log, best, seen, by_mode = [], [], {'value': 1e9}, set(), {}\n"
        "recent, logger = collections.deque(maxlen=3), logging.getLogger('outside')",
        [], [], [],
        [
            "history.clear()", "log.clear()", "best['value'] = 1e9", "history = []", "log = [1]",
            "seen.clear()", "by_mode.clear()",
        ],
        [
            "history.append(n)", "log.append({a})", "log.append((n, {a}, [{b}]))",
            "best['value'] = {a}", "if {a} < best['value']:\n    best['value'] = {a}",
            "seen.add(n)", "by_mode.setdefault(mode, []).append(n)", "log += [{a}]",
            "recent.append({a})", "logger.info('%s at %s', {a}, n)", "history.extend([n, i])",
            "if len(log) > 50:\n    log.clear()", "log.append(np.sum(m[0] * {a}).item())",
        ],
        [
            "0.1 * (len(history) % 7) * {a}", "({a} if history and history[-1] > 1 else {b})",
            "0.1 * sum(history[-2:]) * {a}", "({a} if len(seen) > 2 else {b})",
        ],
        ("list(history), set(seen)", "history[:] = s[0]; seen.clear(); seen.update(s[1])"),
    ),
    "list": Way(
        "rows, pairs = [0.5, -0.8, 1.2, 0.3], [(0.5, 1), (-0.3, 0), (1.1, 2)]\n"
        "nested, codes = [[0.1, 0.7], [-0.4, 0.9]], [0, 2, 1, 1]\n"
        "fixed, long = (0.4, -1.1, 0.6), [0.01 * k for k in range(150)]",
        [
            "rows[n % len(rows)] * {a}", "rows[0] * {a} + rows[-1]", "sum(rows[:2]) * {a}",
            "sum([r * {a} for r in rows if r > 0])", "pairs[n % 3][0] * {a}",
            "nested[1][n % 2] * {a}", "max(rows) * {a}", "fixed[i % 3] * {a}",
            "rows[int(abs({a}) * 3) % len(rows)] * {b}", "rows[codes[n % 4] % len(rows)] * {a}",
            "len(rows) * 0.1 * {a}", "sum([u * v for u, v in zip(rows, d)]) * 0.2",
            "nested[codes[i % 4] % 2][0] * {a}", "np.sum(np.array(rows[:2]) * {a})",
            "long[n % 150] * {a}", "sum([r for r in reversed(rows)]) * {a} * 0.3",
        ],
        [
            "rows[1] < {a}", "len(rows) > 4", "pairs[0][1] == 1", "n in codes",
            "codes[n % 4] == 2", "rows[n % 2] > 0", "nested[0][0] < {a} < nested[1][1]",
        ],
        [
            "for u in rows:", "for u, i in pairs:", "for u in nested[0]:", "for i in codes:",
            "for i, u in enumerate(rows):", "for u, g in zip(rows, d):", "for u in fixed:",
            "for i in range(len(rows)):", "for u, g in nested:",
        ],
        [
            "rows[{j}] = {v}", "rows.append({v})", "len(rows) > 3 and rows.pop()",
            "rows = [{v}, 0.3, -0.7]", "pairs[0] = ({v}, 2)", "nested[0][1] = {v}",
            "nested[1] = [{v}, 0.2]", "codes[{j}] = {j}", "rows[0] = 2", "rows.reverse()",
            "rows.sort()", "fixed = ({v}, 0.1, 2)", "rows += [{v}]", "nested[0] = nested[1]",
            "rows[:] = [{v}, -0.4, 0.8]", "rows.insert(0, {v})",
        ],
    ),
    "dict": Way(
        "cfg = {'width': 0.4, 'order': 2, 'on': True, 'mode': 'soft', 'w': [0.5, 0.9, -0.6],\n"
        "       'inner': {'rate': 0.3, 'low': -0.2}, 'cap': None}",
        [
            "cfg['width'] * {a}", "abs(np.tanh({a})) ** cfg['order']", "cfg['w'][n % 3] * {a}",
            "cfg['inner']['rate'] * {a}", "cfg.get('extra', 0.5) * {a}",
            "sum([k * 0.1 for k in cfg['w']]) * {a}",
            "sum([cfg[k] * 0.1 for k in ('width', 'order')]) * {a}",
            "({a} if cfg['cap'] is None else min({a}, cfg['cap']))",
            "sum(cfg['inner'].values()) * {a}", "cfg['w'][int(abs({a})) % 3] * {b}",
            "len(cfg['inner']) * 0.2 * {a}", "{{'soft': 0.6, 'hard': 1.1}}[cfg['mode']] * {a}",
        ],
        [
            "cfg['on']", "cfg['mode'] == 'soft'", "{a} > cfg['width']", "'extra' in cfg",
            "cfg['on'] and {a} > 0", "cfg.get('extra') is None", "cfg['order'] > n",
            "cfg['cap'] is not None and {a} > cfg['cap']",
        ],
        [
            "for u in cfg['w']:", "for _, u in cfg['inner'].items():",
            "for i in range(cfg['order']):",
        ],
        [
            "cfg['width'] = {v}", "cfg['on'] = not cfg['on']", "cfg['mode'] = 'hard'",
            "cfg['order'] = 3", "cfg['w'][{j}] = {v}", "cfg['inner']['rate'] = {v}",
            "cfg['inner']['more'] = {v}", "cfg['extra'] = {v}", "cfg.pop('extra', None)",
            "cfg['cap'] = {v}", "cfg['cap'] = None", "cfg = dict(cfg, width={v})",
            "cfg['w'] = [{v}, 0.1, 0.2]", "cfg['inner'] = {{'low': {v}, 'rate': 0.1}}",
            "cfg['order'] = 1", "cfg.update(width={v}, mode='soft')", "cfg['width'] = 1",
        ],
        ["cfg['last'] = n", "cfg['runs'] = cfg.get('runs', 0) + 1"],
    ),
    "dict of arrays": Way(
        "arrays = {'w': numpy.array([0.5, -0.7, 0.9, 0.2]), 'k': numpy.array([0, 2, 1]),\n"
        "          'on': numpy.array([True, False, True]),\n"
        "          'm': numpy.array([[0.3, -0.2, 0.8], [0.1, 0.5, -0.6]])}",
        [
            "arrays['w'][n % 4] * {a}", "np.sum(arrays['w'] * {a}) * 0.3",
            "np.tanh(np.sum(arrays['m'] @ m[0]) * {a})",
            "arrays['w'][arrays['k'][n % 3]] * {a}", "np.mean(np.maximum(arrays['w'], {a}))",
            "arrays['m'][n % 2, i % 3] * {a}", "np.dot(arrays['w'][:3], m[0]) * 0.3",
            "np.sum(arrays['w'][arrays['w'] > 0.2]) * {a}", "len(arrays['w']) * 0.1 * {a}",
            "np.max(arrays['m'] * {a})", "np.sum(m[0][arrays['on']]) * {a} * 0.3",
            "arrays['w'][-1] * {a}", "np.sum(arrays['m'][:, 1] * {a})", "arrays['w'].sum() * {a}",
            "arrays['w'][int(abs({a})) % 4] * {b}", "arrays['m'].shape[1] * 0.1 * {a}",
        ],
        [
            "arrays['on'][n % 3]", "arrays['w'][0] > {a}", "np.any(arrays['w'] > {a})",
            "arrays['k'][0] == 1", "arrays['w'][i % 4] * {a} > 0.1", "np.all(arrays['on'])",
        ],
        [
            "for u in arrays['w']:", "for i in arrays['k']:", "for row in arrays['m']:",
            "for u, g in zip(arrays['w'], d):", "for i in range(arrays['w'].shape[0]):",
        ],
        [
            "arrays['w'][{j}] = {v}", "arrays['w'] *= 1.1", "arrays['k'][{j}] = {j}",
            "arrays['w'] = numpy.append(arrays['w'], {v})", "arrays['m'][1, {j}] = {v}",
            "arrays['on'][{j}] = not arrays['on'][{j}]", "arrays['m'] = arrays['m'] * 0.5",
            "arrays['w'].sort()", "arrays['w'] = arrays['w'][::-1]", "arrays['m'] -= {v}",
            "arrays['k'] = numpy.array([1, 1, {j}])", "arrays['on'] = ~arrays['on']",
            "arrays['m'] = numpy.asfortranarray(arrays['m'])", "arrays['w'].fill({v})",
            "arrays = dict(arrays, w=numpy.full(5, {v}))",
        ],
    ),
    "object": Way(
        "model, Model.bias, Model.total = Model(), 0.2, 0",
        [
            "model.rate * {a}", "model.penalty({a})", "model.twice * {a}", "model(0.9 * {a})",
            "model.data[n % 3] * {a}", "model.child.gain * {a}", "model.bias + {a}",
            "getattr(model, 'extra', 0.5) * {a}", "np.sum(model.data * {a})",
            "model.table[n % 2] * {a}", "Model.bias * {a}", "model.data[int(abs({a})) % 3] * {b}",
        ],
        [
            "model.rate < {a}", "model.limit > n", "hasattr(model, 'extra')", "model.child.on",
            "model.kind == 'soft'", "model.penalty({a}) > 0.2", "model.table[0] < {a}",
        ],
        ["for u in model.data:", "for u in model.table:", "for i in range(model.limit):"],
        [
            "model.rate = {v}", "model.data[{j}] = {v}", "model.limit = 1 + {j}", "model.count = 0",
            "model.data = numpy.array([{v}, 0.3, 0.9])", "model.child.gain = {v}",
            "model.child = Child()", "Model.bias = {v}", "model.bias = {v}", "model.extra = {v}",
            "vars(model).pop('extra', None)", "model.table[0] = {v}", "model.penalty = halved",
            "model = Other()", "model.kind = 'hard'", "model.child.on = not model.child.on",
            "model.data *= 0.8", "model.table = [{v}, 2]", "model.__class__ = Other",
            "vars(model)['rate'] = {v}",
        ],
        [
            "model.count += 1", "Model.total += 1", "model.log.append(n)", "model.last = {a}",
            "{x} = {a} * model.note(n)", "model.best = {a}",
        ],
        [
            "({a} if model.count % 5 == 4 else {b})", "0.1 * (Model.total % 5) * {a}",
            "({a} if len(model.log) % 8 > 5 else {b})", "0.1 * (model.count % 3) * {a}",
        ],
        ("model.count, Model.total, list(model.log)",
         "model.count, Model.total, model.log[:] = s"),
    ),
    "dataclass": Way(
        "settings, spec, point, ends = Settings(), Spec(), Point(0.6, -0.4), Slots()",
        [
            "settings.width * {a}", "settings.gain[n % 3] * {a}", "spec.rate * {a}",
            "point.x * {a} + point.y", "settings.scaled({a})", "spec.part.width * {a}",
            "min(max({a}, ends.low), ends.high)", "abs(np.tanh({a})) ** spec.order",
            "sum(point) * {a}", "point[n % 2] * {a}", "sum(settings.gain) * {a}",
        ],
        [
            "settings.width < {a}", "settings.kind is Kind.SOFT", "spec.order > n",
            "ends.low < {a} < ends.high", "settings.steps > n % 3", "point.x > {a}",
        ],
        [
            "for u in settings.gain:", "for i in range(settings.steps):", "for u in point:",
            "for i in range(spec.order):",
        ],
        [
            "settings.width = {v}", "settings.gain[{j}] = {v}", "settings.kind = Kind.HARD",
            "settings.steps = {j}", "spec = Spec({v}, 2)", "point = Point({v}, 0.9)",
            "point = point._replace(y={v})", "ends.low = {v}", "ends = Slots({v}, 0.8)",
            "settings = Settings({v}, 1)", "spec.part.width = {v}", "settings.gain.reverse()",
            "spec = dataclasses.replace(spec, order=1)", "settings.width = 1",
        ],
        ["settings.calls += 1", "settings.last = {a}"],
        ["({a} if settings.calls % 6 > 3 else {b})"],
        ("settings.calls", "settings.calls = s"),
    ),
    "labels": Way(
        "labels, groups, small = numpy.array([0, 2, 1, 1, 0]), [0, 1, 1], "
        "numpy.array([2, 0, 1], numpy.int32)\n"
        "flags, coef = numpy.array([True, False, True]), numpy.array([0.5, -0.8, 1.1])\n"
        "every = numpy.arange(10)[::2] % 3",
        [
            "d[labels[n % 5] % len(d)] * {a}", "coef[labels[i % 5]] * {a}",
            "np.sum(coef[labels] * {a}) * 0.2", "coef[small[n % 3]] * {a}",
            "({a} if groups[n % 3] == 1 else {b})", "labels[0] * 0.1 * {a}",
            "kept[labels[0] % len(kept)]", "np.sum(d[:2] * coef[labels[:2]])",
            "coef[every[n % 5]] * {a}", "coef[groups[i % 3]] * {a}", "np.sum(coef[flags]) * {a}",
            "m[0, labels[i % 5]] * {a}", "np.sum(np.where(flags, coef, {a}))",
            "cells[labels[n % 5]] + 0.1 * {a}", "np.sum(coef[labels[:3] == 1] * {a})",
        ],
        [
            "labels[n % 5] == 1", "groups[i % 3] > 0", "flags[n % 3]", "labels[0] < labels[1]",
            "n in groups", "small[0] > n", "coef[labels[1]] < {a}", "np.any(labels > n)",
        ],
        [
            "for i in labels:", "for i, u in zip(labels, d):", "for i in groups:",
            "for u in coef[labels]:", "for i in every:", "for u, g in zip(coef, flags):",
        ],
        [
            "labels[{j}] = {j}", "labels = labels[::-1]", "groups[{j}] = 2 - groups[{j}]",
            "small[{j}] = {j}", "flags[{j}] = not flags[{j}]", "coef[{j}] = {v}", "coef *= 1.2",
            "labels = numpy.array([1, 1, {j}, 0, 2])", "labels = labels.astype(numpy.int32)",
            "labels[:] = 2 - labels", "every = numpy.array([2, 1, {j}, 0, 0])",
        ],
    ),
    "module": Way(
        "constants, LIMIT, WEIGHTS = types.ModuleType('constants'), 0.4, (0.9, -0.3, 0.6)\n"
        "vars(constants).update(RATE=0.8, TABLE=[0.4, 1.1, -0.7], N=3, MODE='soft', COUNT=0,\n"
        "    CUT=0.1, GRID=numpy.array([0.2, 0.5, -0.4, 0.9]), bent=halved)\n"
        "constants.own = types.FunctionType(of_module.__code__, vars(constants))",
        [
            "constants.RATE * {a}", "constants.TABLE[n % 3] * {a}", "constants.GRID[i % 4] * {a}",
            "LIMIT * {a}", "WEIGHTS[n % 3] * {a}", "constants.bent({a})", "constants.own({a})",
            "np.sum(constants.GRID * {a}) * 0.3", "max({a}, LIMIT)", "sum(WEIGHTS) * {a}",
        ],
        [
            "constants.N > n", "{a} > LIMIT", "constants.MODE == 'soft'", "constants.RATE < {a}",
            "constants.TABLE[0] < {a} < WEIGHTS[0]",
        ],
        [
            "for u in constants.TABLE:", "for i in range(constants.N):", "for u in constants.GRID:",
            "for u in WEIGHTS:",
        ],
        [
            "constants.RATE = {v}", "constants.TABLE[{j}] = {v}", "constants.N = 1 + {j}",
            "constants.MODE = 'hard'", "LIMIT = {v}", "WEIGHTS = ({v}, 0.2, 0.1)", "LIMIT = 1",
            "constants.GRID[{j}] = {v}", "constants.bent = doubled", "constants.CUT = {v}",
            "constants.GRID = constants.GRID[::-1]", "constants.TABLE = [{v}, 0.3, 1]",
            "vars(constants)['RATE'] = {v}",
        ],
        ["constants.COUNT += 1", "constants.LAST = {a}"],
        ["({a} if constants.COUNT % 6 == 5 else {b})"],
        ("constants.COUNT", "constants.COUNT = s"),
    ),
    "closure": Way(
        "table_of = [0.1, 0.9, -0.4]\n"
        "bent, at, counted, late, rescale, reset, hits = made(0.7, table_of)\n"
        "by, chosen = functools.partial(lambda u, w: u * w, w=0.6), [halved, doubled, bent]",
        [
            "bent({a})", "at(n) * {a}", "at(i, by=0.5) * {a}", "by({a})", "chosen[n % 3]({a})",
            "chosen[0]({a})", "bent(by({a}))", "sum([at(k) for k in range(3)]) * {a}",
            "at(int(abs({a}))) * {b}", "halved({a})",
        ],
        ["bent({a}) > 0.3", "at(n) < {a}", "by(1.0) > {a}"],
        ["for u in map(at, range(3)):", "for u in [at(k) for k in range(2)]:"],
        [
            "rescale({v})", "table_of[{j}] = {v}", "bent = doubled", "by.keywords['w'] = {v}",
            "at.__defaults__ = ({v},)", "chosen[0] = doubled", "chosen.reverse()", "reset(0)",
            "by = functools.partial(by.func, w={v})", "table_of.append({v})",
            "halved = doubled", "bent.__code__ = bent.__code__.replace(co_name='other')",
            "counted.__kwdefaults__ = {{'weight': {v}}}",
        ],
        ["{x} = counted({a})"],
        ["({a} if late() else {b})"],
        ("hits()", "reset(s)"),
    ),
}  # fmt: skip
