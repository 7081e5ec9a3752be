"""What a compiled function says of its loops and branches: nesting, lines, edges, reasons."""

import re
import sys
import warnings
import xml.etree.ElementTree

import numpy as np
import pytest
from assumed import needs
from branching import CASES
from random_flow import RandomGraph

import tapegrad as tg
import tapegrad.math as math
from tapegrad._flow.ir.flow_graph import Return
from tapegrad._flow.passes.simplify import simplified
from tapegrad._flow.program import FlowProgram, edge_counts
from tapegrad._program.reports.explain import every, nested


def penalty(r):
    if r < 0.0:
        return math.exp(r) * r
    return 2.0 * math.sin(r) / (r + 1.0)


def misfit(p, x, y):
    total = 0.0
    for i in range(len(x)):
        r = abs(y[i] - p[0] * x[i])
        if r < 1.0:
            total = total + math.sin(r) ** 2
        elif r > 50.0 and p[1] > 0.0:
            break
        else:
            total = total + penalty(r - 2.0)
    rounds = 0
    while abs(total) > 1.0:
        total = total / 2.0
        rounds += 1
        if rounds > 60:
            return -total
    return total + np.sum(x * p[1])


X, Y = np.array([0.1, 0.2, -0.3]), np.array([0.2, 1.5, 6.0])


def called(f, *calls, **options):
    """The function compiled and called."""
    c = tg.compile(f, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for args in calls:
            c.value_and_grad(*args)
    return c


def explained(c):
    """The lines on graphs, without files and numbers of lines."""
    text = re.sub(r"[\w<>.]+:\d+ in ", "", c.explain())
    _, *lines = text.splitlines()
    return [line[2:] for line in lines[: [*map(is_other, lines), True].index(True)]]


def is_other(line):
    return line.startswith(("  signature", "  history"))


#: Of a `while` CPython 3.12 compiles the first test apart from those of further rounds.
ONE_TEST = pytest.mark.skipif(sys.version_info >= (3, 12), reason="edges are of other bytecode")


@needs("numba-reader")
@ONE_TEST
def test_loops_and_branches_by_line():
    p = np.array([0.5, 1.0])
    first, *lines = explained(called(misfit, (p, X, Y / 10), (p, X, Y), (p, X, Y)))
    assert re.match(r"branches and loops: a graph of \d+ blocks .* interpreted for .* 2 ev", first)
    assert lines == [
        "  loop at misfit, 2 of 2 edges seen: for i in range(len(x)):",
        "    branch at misfit, 2 of 2 edges seen: if r < 1.0:",
        "      branch at misfit, 1 of 4 edges seen: elif r > 50.0 and p[1] > 0.0:",
        "      branch at penalty, 2 of 2 edges seen: if r < 0.0:",
        "  loop at misfit, 1 of 4 edges seen: while abs(total) > 1.0:",
        "    branch at misfit, 0 of 2 edges seen: if rounds > 60:",
        "  loop over elements × 2 at misfit, 4 of 4 edges seen: return total + np.sum(x * p[1])",
    ]


@needs("numba-reader")
def test_branches_of_which_both_arms_are_computed():
    def short(x):
        a, b = x[0], x[1]
        total = a if b > 0.0 else 2.0 * b
        return total * 3.0

    c = called(short, *[(np.array([1.0, s]),) for s in (1.0, -1.0)])
    (line,) = explained(c)[1:]
    assert line == (
        "  branch of which both arms are computed at short, 1 of 2 edges seen: "
        "total = a if b > 0.0 else 2.0 * b"
    )
    assert "total = a if b &gt; 0.0" in c.draw()


@needs("numba-reader")
@pytest.mark.parametrize("native", [True, False, None])
def test_states(native):
    c = called(misfit, *[(np.array([0.5, 1.0]), X, k * Y) for k in (0.1, 1.0, 2.0)], native=native)
    c.wait()
    # native code that is ready before the last call is compared there, by one evaluation more
    assert re.search("native, [23] " if native else "interpreted", explained(c)[0])
    assert ("native code after" in explained(c)[0]) is (native is None)
    before = [line.split(" edges")[0] for line in explained(c)[1:]]
    c.value_and_grad(np.array([0.5, 1.0]), X, Y)
    assert [line.split(" edges")[0] for line in explained(c)[1:]] == before


@pytest.mark.parametrize("seed", range(40))
def test_each_block_has_one_place(seed):
    graph = RandomGraph(seed).graph
    for one in (graph, simplified(graph)):
        nodes = [node for node in every(nested(one)) if node.kind == "block"]
        assert sorted(node.block.number for node in nodes) == sorted(
            block.number for block in one.blocks
        )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_loops_have_their_own_lines(case):
    """Each loop and branch is at a line that has one, also those that come from expressions."""
    rng = np.random.default_rng(1)
    c = called(case.function, *[case.make(rng) for _ in range(6)], argnums=case.argnums)
    for flow in c._flows.found.values():
        graph = flow.primal.program.graph
        nodes = list(every(nested(graph)))
        assert {id(n.block) for n in nodes if n.kind == "block"} == set(map(id, graph.blocks))
        assert all(graph.lines[node.line] for node in nodes if node.kind != "block")
    assert c.explain()


def inverse(x, y):
    total = 0.0
    for k in range(len(y)):
        total = total + (math.exp(x[k]) / y[k] if y[k] > 0.0 else x[k])
    return total


@needs("numba-reader")
def test_calls_that_leave():
    x = np.array([1.0, 800.0])
    c = called(inverse, *[(x[::s] / 1e3, np.array([1.0, -s])) for s in (1, -1, 1)])
    with pytest.raises(OverflowError):
        c(x, np.ones(2))
    text = c.explain()
    assert "1 evaluation left it and ran eagerly" in text
    place = rf"test_graph_reports.py:{inverse.__code__.co_firstlineno + 3} in inverse"
    assert re.search(rf"1 × math.exp may raise \({place}\); .*NumPy gives", text)


def outside(x):
    return np.linalg.det(np.outer(x, x)) + x[0] if x[0] > 0.0 else x[1]


def kinds(x):
    found, n = 0.0, 0
    while n < 9 and x[0] > 0.1 * n:
        found, n = (x[1], found), n + 1
    return x[0] * n


def recursive(x, n=2.0):
    return recursive(x * 0.5, n) if x[0] > n else x[1] * n


def caught(x):
    try:
        return x[0] if x[0] > 0 else x[1]
    except ValueError:
        return x[0]


@needs("numba-reader")
@pytest.mark.parametrize(
    ("f", "reason", "line", "instead"),
    [
        (outside, "calls outer", 1, "compile a function of the loops and branches alone"),
        (kinds, "a variable has values of more than 6 kinds", None, "one kind on each branch"),
        (recursive, "nest too deeply", 1, "as a loop"),
        (caught, "", None, "it has a try statement"),
    ],
)
def test_refusals(f, reason, line, instead):
    c = called(f, *[(np.array(x),) for x in ([1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [3.0, 1.0])])
    (text,) = [text for text in c.explain().splitlines() if "without a graph" in text]
    assert reason in text and instead in text
    if line is not None:
        place = f"(test_graph_reports.py:{f.__code__.co_firstlineno + line} in {f.__name__})"
        assert place in text


@needs("numba-reader")
def test_functions_without_source():
    made = {}
    exec("def f(x):\n    return x[0] * x[0] / x[1] if x[0] > 0 else x[1]", made)
    c = called(made["f"], (np.array([1.0, 2.0]),), (np.array([-1.0, 2.0]),))
    assert explained(c)[1:] == ["  branch at f, 1 of 2 edges seen"]


# --- pictures -------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"


def boxes(element, x=0.0, y=0.0, inside=None):
    """(title, rectangle, rectangle around it) of each box of a picture, outer ones first."""
    if element.tag == SVG + "g":
        numbers = re.findall(r"[\d.]+", element.get("transform"))
        x, y = x + float(numbers[0]), y + float(numbers[1])
    rects, texts = element.findall(SVG + "rect"), element.findall(SVG + "text")
    if rects and rects[0].get("width") != "100%":
        width, height = (float(rects[0].get(name)) for name in ("width", "height"))
        mine = x, y, x + width, y + height
        yield texts[0].text, mine, inside
        inside = mine
    for child in element.findall(SVG + "g"):
        yield from boxes(child, x, y, inside)


def within(a, b):
    return b[0] <= a[0] and b[1] <= a[1] and a[2] <= b[2] and a[3] <= b[3]


@needs("numba-reader")
@ONE_TEST
def test_pictures_nest_loops_and_branches(tmp_path):
    c = called(misfit, *[(np.array([0.5, 1.0]), X, k * Y) for k in (0.1, 1.0, 1.0)])
    text = c.draw(tmp_path / "misfit.svg")
    assert (tmp_path / "misfit.svg").read_text(encoding="utf-8") == text
    found = list(boxes(xml.etree.ElementTree.fromstring(text)))
    assert all(within(mine, around) for _, mine, around in found if around)
    for _, a, inside in found:
        for _, b, other in found:
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert apart or a is b or inside is not other
    places = {rect: title for title, rect, _ in found}
    around = {title: places.get(inside) for title, _, inside in found}
    loop = "for i in range(len(x)):"
    assert around[loop] is None and around["if r < 1.0:"] == loop
    assert around["elif r > 50.0 and p[1] > 0.0:"] == "elif r > 50.0 and p[1] > 0.0:"
    assert around["if r < 0.0:"] == "if r < 1.0:"
    assert around["not taken yet"] == "elif r > 50.0 and p[1] > 0.0:"
    assert [title for title, _, _ in found][:3] == ["input 0", "input 1", "input 2"]


@needs("numba-reader")
def test_pictures_of_large_graphs_are_cut():
    lines = [f"    s = s + (x[{k}] / x[1] if x[{k}] > 0 else x[0])\n" for k in range(60)]
    made = {}
    exec(f"def f(x):\n    s = 0.0\n{''.join(lines)}    return s", made)
    c = called(made["f"], (np.ones(60),), (-np.ones(60),))
    titles = [title for title, _, _ in boxes(xml.etree.ElementTree.fromstring(c.draw()))]
    assert len(titles) < 200 and any(re.match("… and .* more", title) for title in titles)


# --- profiles -------------------------------------------------------------------------------------


def operations_at(found, text):
    """How many operations a profile has at the line of this file with some text."""
    with open(__file__) as file:
        number = next(k for k, line in enumerate(file, 1) if text in line)
    (line,) = [one for one in found.lines if one.place and one.place[1] == number]
    assert line.place[0] == __file__
    return line.operations


@needs("numba-reader")
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("n", [3, 30])
def test_profiles_count_by_line(native, n):
    calls = [(np.array([0.5, 1.0]), np.ones(n), k * np.ones(n)) for k in (0.1, 1.9, 6.0)]
    c = called(misfit, *calls, native=native)
    c.wait()
    seen = [flow.primal.seen for flow in c._flows.found.values()]
    found = c.profile(*calls[0])
    assert found.native is native and {step.tier for step in found.steps} == {
        "native" if native else "interpreted"
    }
    assert operations_at(found, "if r < 1.0:") == 2 * n
    assert operations_at(found, "total = total + math.sin(r) ** 2") % n == 0
    assert not any(line.place and line.place[2] == "penalty" for line in found.lines)
    assert operations_at(c.profile(*calls[2]), "return 2.0 * math.sin(r)") > 4 * n
    assert found.forward > 0.0 and found.reverse > 0.0
    assert sum(line.reverse for line in found.lines) == pytest.approx(found.reverse)
    assert f"misfit: {'native' if native else 'interpreted'}" in str(found)
    after = [flow.primal.seen for flow in c._flows.found.values()]
    assert all(map(np.array_equal, seen, after))


@pytest.mark.parametrize("seed", range(40))
def test_edges_are_counted(seed):
    """A call comes to each block as often as it goes on from there, but for the last one."""
    graph = RandomGraph(seed).graph
    counts = edge_counts(
        FlowProgram(graph), [0.5, 1.5, np.linspace(-1, 1, 6), np.linspace(0, 2, 5)]
    )
    edges = [(block, edge.target) for block in graph.blocks for edge in block.end.edges]
    balance = {block: int(block is graph.entry) for block in graph.blocks}
    for (before, after), count in zip(edges, counts.tolist(), strict=True):
        balance[before] -= count
        balance[after] += count
    (last,) = [block for block in graph.blocks if balance[block]]
    assert isinstance(last.end, Return) and balance[last] == 1


def test_profiles_of_calls_that_leave():
    x = np.array([1.0, 1e-3])
    c = called(inverse, *[(x[::s], np.array([1.0, -s])) for s in (1, -1, 1)])
    with pytest.raises(OverflowError):
        c.profile(1e6 * x, np.ones(2))
    assert c.profile(x, np.ones(2)).forward > 0.0
