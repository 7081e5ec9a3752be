"""Graphs of loops and branches in files: every way and length, calls that leave, hostile graphs."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import saved_functions
from assumed import needs
from compiled import same
from random_flow import RandomGraph
from saved_functions import GRAPHS, X, described, looked_up, newton, robust, stepped, with_graph

import tapegrad as tg
from tapegrad._flow.ir.flow_graph import Builder, Edge, Graph, GraphInput
from tapegrad._flow.ir.frame import FINISHED
from tapegrad._flow.kinds.step_kinds import FLOAT, INT
from tapegrad._flow.program import FlowProgram
from tapegrad._flow.reading.forms import Array, Number, Tuple
from tapegrad._program.files import encode, file_format


def in_file(f, tmp_path):
    """The function compiled, loaded from its file, and calls."""
    made, calls = with_graph(f)
    made.save(tmp_path / "f.npz")
    return made, tg.load(tmp_path / "f.npz"), calls


# --- the same as before ---------------------------------------------------------------------------


@needs("numba-reader")
@pytest.mark.parametrize("f", GRAPHS, ids=lambda f: f.__name__)
def test_a_loaded_function_takes_every_way(f, tmp_path):
    argnums, _ = GRAPHS[f]
    made, loaded, calls = in_file(f, tmp_path)
    eager = tg.value_and_grad(f, argnums)
    is_number = f not in (described, saved_functions.cut)
    for args in (*calls, *calls[::-1]):  # a call may take a short way
        same(loaded(*args), f(*args))
        same(loaded(*args), made(*args), rtol=0)
        if is_number:
            same(loaded.value_and_grad(*args), eager(*args), rtol=1e-10)
            same(loaded.grad(*args), made.grad(*args), rtol=0)
    assert "from a file" in loaded.explain()
    assert all(flow.primal.calls for flow in loaded._flows.found.values())


@needs("numba-reader")
@pytest.mark.parametrize("f", [robust, saved_functions.cut], ids=lambda f: f.__name__)
def test_derivatives_that_the_graph_gives(f, tmp_path):
    made, loaded, calls = in_file(f, tmp_path)
    for args in calls[:3]:
        same(loaded.jacobian(*args), made.jacobian(*args))
        if f is robust:
            v = np.array([0.3, -1.2])
            same(loaded.hessian(*args), tg.hessian(f)(*args), rtol=1e-10)
            same(loaded.hvp(args[0], v, *args[1:]), tg.hvp(f)(args[0], v, *args[1:]), rtol=1e-10)
    with pytest.raises(RuntimeError, match="has no vjp in its file, and its graph does not give"):
        loaded.vjp(*args)[1](made(*args))


@needs("numba-reader")
def test_derivatives_by_all_arguments_are_there_if_they_were_called(tmp_path):
    _, loaded, calls = in_file(newton, tmp_path)
    same(loaded.jvp((3.0,), (0.5,)), tg.jvp(newton, (3.0,), (0.5,)), rtol=1e-10)
    same(loaded.vjp(3.0)[1](2.0), tg.vjp(newton, 3.0)[1](2.0), rtol=1e-10)
    made, calls = with_graph(robust)
    tangents = tuple(np.cos(one) for one in calls[0])
    made.jvp(calls[0], tangents)
    made.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    for args in calls:
        if len(args[1]) == len(tangents[1]):
            same(loaded.jvp(args, tangents), tg.jvp(robust, args, tangents), rtol=1e-10)


@needs("numba-reader")
def test_rows_threads_recorded_arguments_and_copies(tmp_path):
    made, loaded, calls = in_file(newton, tmp_path)
    rows = np.geomspace(0.01, 90.0, 70)
    for one in (loaded, copy.copy(loaded), copy.deepcopy(loaded)):
        same(one.map(rows), made.map(rows))
    same(loaded.sum(rows, threads=2), made.sum(rows, threads=2))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(loaded.value_and_grad, rows.tolist()))
    same(found, [made.value_and_grad(a) for a in rows.tolist()], rtol=0)
    x = tg.tensor(7.0, requires_grad=True)
    (gradient,) = tg.autograd.grad(loaded(x) * 2.0, x)
    assert gradient.item() == pytest.approx(1.0 / np.sqrt(7.0))
    assert loaded.profile(5.0).forward > 0.0 and "<svg" in loaded.draw()


@needs("numba-reader")
def test_a_loaded_function_is_saved_as_it_was(tmp_path):
    for f in GRAPHS:
        _, loaded, _ = in_file(f, tmp_path)
        loaded.save(tmp_path / "g.npz")
        assert (tmp_path / "f.npz").read_bytes() == (tmp_path / "g.npz").read_bytes()


@needs("numba-reader")
def test_pickles(tmp_path):
    _, loaded, calls = in_file(robust, tmp_path)
    again = pickle.loads(pickle.dumps(loaded))
    same(again.value_and_grad(*calls[-1]), loaded.value_and_grad(*calls[-1]), rtol=0)
    made, calls = with_graph(looked_up)  # whose graph is read again, with the array that is there
    made = pickle.loads(pickle.dumps(made))
    for args in calls:
        same(made(*args), looked_up(*args))
    assert all(not flow.limits.are_checked for flow in made._flows.found.values())


@needs("numba-reader")
def test_what_is_read_outside_is_as_it_was(tmp_path, monkeypatch):
    made, calls = with_graph(looked_up)
    other = X * 2.0
    made.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    wanted = [looked_up(*args) for args in calls]
    monkeypatch.setattr(saved_functions, "X", other)
    same([loaded(*args) for args in calls], wanted)
    with pytest.raises(ValueError, match="what the function reads has changed since"):
        made.save(tmp_path / "f.npz")  # neither that graph nor a program serves calls any more


# --- calls that leave -----------------------------------------------------------------------------


@needs("numba-reader")
def test_a_call_that_leaves_says_why(tmp_path):
    _, loaded, _ = in_file(stepped, tmp_path)
    families = [*loaded._families.found]
    reason = (
        "stepped leaves its graph, and its file has no function to call: the function raises an exc"
    )
    for _ in range(40):  # it is not given up
        with pytest.raises(RuntimeError, match=reason) as caught:
            loaded.value_and_grad(0.5, -1.0)
    assert "saved_functions.py" in str(caught.value) and "in stepped" in str(caught.value)
    with pytest.raises(RuntimeError, match=reason):
        loaded(0.5, -1.0)
    with pytest.raises(RuntimeError, match=reason):
        loaded.map(np.array([0.5, 0.7]), np.array([2.0, -1.0]))
    assert loaded(0.5, 3.0) == stepped(0.5, 3.0) and "raised an error" in loaded.explain()
    with pytest.raises(RuntimeError, match="no program in its file for arguments like these"):
        loaded(X, 2.0)
    assert [*loaded._families.found] == families


@needs("numba-reader")
def test_gradients_are_of_numbers(tmp_path):
    _, loaded, calls = in_file(described, tmp_path)
    with pytest.raises(ValueError, match="returned more than one number"):
        loaded.value_and_grad(*calls[0])


def test_what_has_no_name_is_said(tmp_path):
    made = tg.compile(lambda x, g: g(x) if x > 0 else x * x)
    for x in (1.0, -1.0, 2.0):
        made(x, np.sin)
    with pytest.raises(ValueError, match="an argument is <ufunc 'sin'>, which files have no name"):
        made.save(tmp_path / "f.npz")


# --- damaged files --------------------------------------------------------------------------------


def graph_in(header):
    return header["function"]["graphs"][0]


def step_of(graph, op, number=0):
    steps = [step for block in graph["blocks"] for step in block["steps"]]
    return [step for step in steps if step[0] == op][number]


CHANGES = {
    "arguments and parameters differ": [
        lambda g: g["blocks"][0]["end"]["jump"][1].pop(),
        lambda g: g["blocks"][0]["end"]["jump"][1].reverse(),
        lambda g: g["blocks"][-1]["end"]["jump"].__setitem__(0, 2),
    ],
    "leads to the first block": [lambda g: g["blocks"][0]["end"]["jump"].__setitem__(0, 0)],
    "there is no block 99": [lambda g: g["blocks"][0]["end"]["jump"].__setitem__(0, 99)],
    "reads what is not set": [
        lambda g: step_of(g, "exp").__setitem__(1, [999]),
        lambda g: step_of(g, "exp").__setitem__(1, [-1]),
        lambda g: step_of(g, "negative").__setitem__(1, [25]),  # a later step
    ],
    "is not set": [lambda g: g["blocks"][3].update(dominator=0)],
    "not reached through its dominator": [lambda g: g["blocks"][3].update(dominator=2)],
    "block 3 is dominated by 3": [lambda g: g["blocks"][3].update(dominator=3)],
    "exp of i": [lambda g: step_of(g, "exp").__setitem__(1, [0])],
    "add of ii": [lambda g: step_of(g, "int_add").__setitem__(0, "add")],
    "a condition is no truth": [lambda g: g["blocks"][1]["end"]["branch"].__setitem__(0, 0)],
    "returns other numbers": [
        lambda g: g["blocks"][2]["end"].update({"return": [0]}),
        lambda g: g["blocks"][2]["end"].update({"return": []}),
        lambda g: g.update(result={"tuple": [{"number": "f"}, {"number": "f"}]}),
    ],
    "no operation 'system'": [lambda g: step_of(g, "exp").__setitem__(0, "system")],
    "no operation 'cholesky'": [lambda g: step_of(g, "exp").__setitem__(0, "cholesky")],
    "in region": [
        lambda g: step_of(g, "load_float").__setitem__(2, 9),
        lambda g: step_of(g, "load_float").__setitem__(2, -1),
        lambda g: step_of(g, "load_float").__setitem__(0, "load_int"),
    ],
    "region 9": [lambda g: g["inputs"].__setitem__(0, 9)],
    "inputs, and its calls": [lambda g: g["inputs"].pop()],
    "inputs and parameters differ": [
        lambda g: g["blocks"][0].update(parameters="iiiiif"),
        lambda g: g["arguments"][1][1][0]["input"].__setitem__(1, [None, None]),
    ],
    "has no line": [
        lambda g: step_of(g, "exp").__setitem__(3, 99),
        lambda g: step_of(g, "exp").__setitem__(3, -1),
        lambda g: g["blocks"][1]["end"]["branch"].__setitem__(3, 99),
        lambda g: g["reasons"][0].__setitem__(1, 99),
    ],
    "reason": [
        lambda g: step_of(g, "check").__setitem__(2, 7),
        lambda g: step_of(g, "check").__setitem__(2, None),
        lambda g: g["blocks"][2].update(end={"leave": -1}),
    ],
    "select 5 comes before": [lambda g: step_of(g, "float_select").__setitem__(2, 5)],
    "int_const is": [
        lambda g: step_of(g, "int_const").__setitem__(2, 2**63),
        lambda g: step_of(g, "int_const").__setitem__(2, True),
    ],
    "is no end of a block": [lambda g: g["blocks"][2].update(end={})],
    "has no blocks": [lambda g: g.update(blocks=[])],
    "exp has 1": [lambda g: step_of(g, "exp").__setitem__(2, 1)],
    "is none of the kinds": [lambda g: g.update(regions="fxf")],
    "no results of the kind": [lambda g: g.update(result={"set": []})],
    "an array of .1000000000,.": [lambda g: g.update(hidden=[["float64", 0, [10**9]]])],
}


@needs("numba-reader")
@pytest.mark.parametrize("message", CHANGES)
def test_a_damaged_graph_is_refused(message, tmp_path):
    in_file(robust, tmp_path)
    header, pools = encode.read(tmp_path / "f.npz")
    for change in CHANGES[message]:
        damaged = copy.deepcopy(header)
        change(graph_in(damaged))
        encode.write(tmp_path / "g.npz", damaged, {"float64": np.ones(1), **pools.pools})
        with pytest.raises(ValueError, match=f"^tapegrad.load: .*{message}"):
            tg.load(tmp_path / "g.npz")


# --- graphs by hand -------------------------------------------------------------------------------

NUMBER = Number(FLOAT, None)
INTEGER = Number(INT, None)


def begun(ndim=None):
    """A graph of one float or array, a builder, its parameters, a region of floats, of integers."""
    graph = Graph()
    floats, integers = graph.region(FLOAT), graph.region(INT)
    graph.inputs.append(GraphInput(ndim, True, -1 if ndim is None else floats))
    entry = graph.block()
    entry.parameters = [graph.value(kind) for kind in graph.inputs[0].parameters]
    return graph, Builder(graph, entry), entry.parameters, floats, integers


def loaded_from(graph, tmp_path, form=NUMBER, **options):
    """A function with this graph, from a file."""
    shape = (3,) * (graph.inputs[0].ndim or 0)
    found = saved_functions.of_graph(graph, [np.zeros(shape)], form)
    file_format.save(tmp_path / "h.npz", found)
    return tg.load(tmp_path / "h.npz", **options)


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_compute_the_same_from_files(seed, tmp_path):
    """Nested loops, branches, memory; with checks and without, bit for bit."""
    graph = RandomGraph(seed).graph
    values = [0.5, 1.5, np.linspace(-1, 1, 6), np.linspace(0, 2, 5)]
    found = saved_functions.of_graph(graph, values, Tuple((NUMBER, NUMBER)))
    file_format.save(tmp_path / "h.npz", found)
    (flow,) = tg.load(tmp_path / "h.npz")._flows.found.values()
    for adjoints in ((1.0, 0.0), (0.3, -2.0)):
        wanted = FlowProgram(graph).run(values, True, adjoints)
        same_run = flow.primal.program.run(values, True, adjoints)
        same([*same_run.results, *same_run.gradients], [*wanted.results, *wanted.gradients], rtol=0)
    assert same_run.status == wanted.status == FINISHED


OUTSIDE = "reads or writes outside of its memory"


@pytest.mark.parametrize("op", ["load_float", "load_int", "store_float", "store_int"])
@pytest.mark.parametrize("address", [-1, 3, 255, 256, 2**40, -(2**62), 2**63 - 1, -(2**63)])
def test_addresses_stay_in_the_memory(op, address, tmp_path):
    """There are three words: the array. A number is added to an address that is right."""
    graph, build, (start, _), floats, integers = begun(1)
    at = build.constant(address)
    if op == "load_float":
        build.give(build.load(floats, at))
    elif op == "load_int":
        build.give(build.step("int_to_float", build.load(integers, at)))
    else:
        given = build.load(floats, start) if op == "store_float" else start
        build.store(floats if op == "store_float" else integers, at, given)
        build.give(build.load(floats, start))
    loaded = loaded_from(graph, tmp_path)
    for call in (loaded, loaded.value_and_grad, loaded.hessian):
        with pytest.raises(RuntimeError, match=OUTSIDE if call != loaded.hessian else "hessian"):
            call(np.arange(3.0))


def test_addresses_that_memory_gives(tmp_path):
    """Each address is read from the word before: x[x[…]], the last one is outside."""
    graph, build, (start, _), floats, _ = begun(1)
    at = build.step("float_to_int", build.load(floats, start))
    again = build.step("float_to_int", build.load(floats, at))
    last = build.load(floats, again)
    build.give(build.step("multiply", last, last))
    loaded = loaded_from(graph, tmp_path)
    x = np.array([1.0, 2.0, 5.0])
    assert loaded(x) == 25.0 and loaded.grad(x).tolist() == [0.0, 0.0, 10.0]
    for wrong in (3.0, -1.0, 1e15, -1e15):
        with pytest.raises(RuntimeError, match=OUTSIDE):
            loaded.grad(np.array([1.0, wrong, 5.0]))


@pytest.mark.parametrize("count", [2**62, 2**27, 2**18])
def test_memory_is_limited(count, tmp_path):
    graph, build, (x,), floats, _ = begun()
    address = build.step("allocate", build.constant(count))
    build.store(floats, address, x)
    build.give(build.load(floats, address))
    loaded = loaded_from(graph, tmp_path, most_bytes=1 << 21)
    for call in (loaded, loaded.value_and_grad):
        with pytest.raises(RuntimeError, match="more memory than a program takes"):
            call(1.0)


def test_memory_is_there_as_far_as_is_allowed(tmp_path):
    graph, build, (x,), floats, _ = begun()
    address = build.step("allocate", build.constant(2**15))
    build.store(floats, build.step("int_add", address, build.constant(2**15 - 1)), x)
    build.give(build.load(floats, build.step("int_add", address, build.constant(2**15 - 1))))
    assert loaded_from(graph, tmp_path, most_bytes=1 << 21).value_and_grad(3.0) == (3.0, 1.0)


@pytest.mark.parametrize("is_taped", [False, True])
def test_endless_loops_end(is_taped, tmp_path, monkeypatch):
    monkeypatch.setattr(file_format, "MOST_STEPS", 1 << 16)
    graph, build, (x,), _, _ = begun()
    head = build.begin("f")
    build.jump(head, x)
    build.block = head
    build.jump(head, build.step("sin", head.parameters[0]))
    loaded = loaded_from(graph, tmp_path, most_bytes=1 << 22)
    with pytest.raises(RuntimeError, match="the call has no end"):
        (loaded.value_and_grad if is_taped else loaded)(0.5)


@pytest.mark.parametrize(
    "address, length", [(0, 4), (-1, 2), (0, -1), (2, 2), (0, 2**62), (2**62, 1)]
)
def test_arrays_of_results_stay_in_the_memory(address, length, tmp_path):
    graph, build, _, _, _ = begun(1)
    build.give(*[build.constant(one) for one in (address, length, 1)])
    loaded = loaded_from(graph, tmp_path, Array(INTEGER, (INTEGER,), (INTEGER,), -1))
    with pytest.raises(ValueError, match=OUTSIDE):
        loaded(np.arange(3.0))


def joined(is_set):
    """A value of one arm, read where both arms meet."""
    graph, build, (x,), _, _ = begun()
    arm, other, end = build.begin(), build.begin(), build.begin()
    holds = build.step("float_less", x, build.constant(0.0))
    before = build.step("sin", x)
    build.branch(holds, Edge(arm, []), Edge(other, []))
    build.block = arm
    made = build.step("exp", x)
    build.jump(end)
    build.block = other
    build.jump(end)
    build.block = end
    build.give(before if is_set else made)
    return graph


def test_what_one_arm_sets_is_not_read_after_it(tmp_path):
    assert loaded_from(joined(True), tmp_path)(2.0) == np.sin(2.0)
    with pytest.raises(ValueError, match="what an end reads is not set"):
        loaded_from(joined(False), tmp_path)


def test_graphs_that_never_return_and_blocks_that_are_not_reached(tmp_path):
    graph, build, _, _, _ = begun()
    build.leave("for no reason")
    with pytest.raises(RuntimeError, match="for no reason"):
        loaded_from(graph, tmp_path)(1.0)
    header, pools = encode.read(tmp_path / "h.npz")
    island = {"dominator": 0, "parameters": "f", "steps": [], "end": {"jump": [1, [1]]}}
    graph_in(header)["blocks"].append(island)
    encode.write(tmp_path / "h.npz", header, pools.pools)
    with pytest.raises(RuntimeError, match="for no reason"):
        tg.load(tmp_path / "h.npz").value_and_grad(1.0)


@needs("numba-reader")
def test_graphs_of_files_have_checks_and_no_native_code(tmp_path):
    made, _, calls = in_file(robust, tmp_path)
    loaded = tg.load(tmp_path / "f.npz", native=True)
    loaded.wait()
    for _ in range(3):
        same(loaded.value_and_grad(*calls[-1]), made.value_and_grad(*calls[-1]), rtol=0)
    loaded.wait()
    (flow,) = loaded._flows.found.values()
    assert flow.primal.life.state == "interpreted with checks" and flow.limits.are_checked
    assert isinstance(flow.primal.program, FlowProgram)
    assert not any(line.is_here for line in flow.primal.program.graph.lines if line)
    assert "for i in range" not in loaded.explain()  # the text of a file that the file names


# --- other calls ----------------------------------------------------------------------------------


def shifted(model, x, *, scale=1.0, kind="a"):
    """Containers, names, and a text."""
    total = 0.0 * model["w"][0]
    for v in x:
        total = total + (model["w"][0] * v if v > model["b"] else model["w"][1] * v * scale)
    return total if kind == "a" else total * 2.0


@needs("numba-reader")
def test_structures_keywords_and_texts(tmp_path):
    made = tg.compile(shifted)
    rng = np.random.default_rng(3)

    def calls():
        for kind in ("a", "b"):
            for n in (4, 5, 6, 0, 1):
                model = {"w": (float(rng.normal()), float(rng.normal())), "b": float(rng.normal())}
                yield (model, rng.normal(size=n)), {"scale": float(rng.normal()), "kind": kind}

    for args, keywords in calls():
        made.value_and_grad(*args, **keywords)
    made.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    for args, keywords in calls():
        eager = tg.value_and_grad(shifted)(*args, **keywords)
        same(loaded.value_and_grad(*args, **keywords), eager, rtol=1e-12)
    with pytest.raises(RuntimeError, match="no program in its file for arguments like these"):
        loaded(*args, scale=1.0, kind="c")


@needs("numba-reader")
def test_functions_that_give_gradients_and_arrays_for_them(tmp_path):
    calls = [(np.array([0.3, -0.8]), rng) for rng in np.random.default_rng(5).normal(size=(5, 4))]

    def split(p, x):
        total = 0.0
        for v in x:
            total = total + (p[0] * v * v if v > p[1] else p[1] * v)
        return total

    for made in (tg.compile(tg.value_and_grad(split)), tg.compile(tg.grad(split, argnums=(1, 0)))):
        for args in calls[:3]:
            made(*args)
        made.save(tmp_path / "f.npz")
        loaded = tg.load(tmp_path / "f.npz")
        for args in calls:
            same(loaded(*args), made(*args), rtol=1e-12)
        assert all(flow.primal.calls == 5 for flow in loaded._flows.found.values())
    p, x = calls[0]
    f = tg.compile(split)
    for _, x in calls:
        f.value_and_grad(p, x)
    f.save(tmp_path / "f.npz")
    gradient = np.empty(2)
    assert tg.load(tmp_path / "f.npz").value_and_grad(p, x, out=gradient)[1] is gradient
    same(gradient, tg.grad(split)(p, x))


@needs("numba-reader")
@pytest.mark.parametrize("n", [0, 1, 2])
def test_float32_and_integers_are_other_arguments(n, tmp_path):
    _, loaded, (args, *_) = in_file(robust, tmp_path)
    p, x, y = args[0], args[1][:n], args[2][:n]
    same(loaded(p, x, y), robust(p, x, y))
    same(loaded(p, x[::-1], y[::-1]), robust(p, x[::-1], y[::-1]))  # not contiguous
    for other in (x.astype(np.float32), x.astype(np.int64)):
        with pytest.raises(RuntimeError, match="tapegrad.load: robust"):
            loaded(p, other, y)


def test_a_function_that_runs_eagerly_is_not_saved_whatever_programs_it_has(tmp_path):
    count = [0]

    def f(x):
        count[0] += 1
        w = 1.0 if count[0] < 5 else 2.0
        return x[0] * w if x[0] > 0 else x[1] * w

    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="runs eagerly.*count"):
        for x in [np.array([0.5, -0.3]), np.array([-1.5, 0.3])] * 3:
            c.value_and_grad(x)
    with pytest.raises(ValueError, match="cannot be saved.*count"):
        c.save(tmp_path / "f.npz")


@needs("numba-reader")
def test_a_result_that_is_the_same_number_on_every_way(tmp_path):
    mode = {"soft": True}

    def f(x):
        y = 0.0
        for v in x:
            y = y + (v if v > 0 else 2.0 * v)
        return 0.03 if mode["soft"] else y

    c = tg.compile(f)
    points = [np.array(x) for x in ([0.5, -0.3, 2.0], [-1.5, 0.3, 1.0], [-1.5, -0.3, 1.0])]
    for x in points[:2] * 2:
        c.value_and_grad(x)
    assert c._flows.found
    c.save(tmp_path / "f.npz")
    for one in (c, tg.load(tmp_path / "f.npz")):
        for x in points:
            value, gradient = one.value_and_grad(x)
            assert value == one(x) == 0.03
            np.testing.assert_array_equal(gradient, np.zeros(3))
    mode["soft"] = False
    np.testing.assert_array_equal(c.grad(points[1]), [2.0, 1.0, 1.0])
