"""What compiled functions and tapes say and draw of themselves."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from saved_functions import FUNCTIONS, X, bisection, compiled, large, picked, recurrence, rosenbrock

import tapegrad as tg
from tapegrad._core.tape.tape import GREEN, RED, Box, depths, picture, summarised
from tapegrad._program.ir.uses import GRADIENT_COSTS, VALUE_COSTS, nanoseconds, size_of
from tapegrad._program.reports.reported import boxes_of

SVG = "{http://www.w3.org/2000/svg}"


def program_of(made):
    return next(iter(made._families.found.values())).found[0].program


def test_explain_names_what_was_fused_dropped_and_recomputed():
    made = compiled(rosenbrock)
    text = made.explain()
    assert text.startswith("rosenbrock: 1 signature\n  signature (f8[12]): 1 program, 1 evaluation")
    assert re.search(r"rows: \d+ recorded, 0 of them not needed", text)
    assert re.search(r"fuse +1 +7 +\d+ +\d+  7 steps fewer, 1 operation fewer", text)
    assert re.search(r"drop stores +1 +7 +1 +\d+  77 stored numbers fewer", text)
    fused = "fused over 11: 7 operations (square subtract square multiply subtract square add)"
    assert fused + ", 0 stored, 1 summed, 3 recomputed" in text
    slots = size_of(program_of(made).code).slots
    assert f"memory of a run: {8 * slots} bytes of values" in text
    assert "native: no, interpreted" in text


def test_explain_counts_rows_that_are_not_needed():
    def f(x):
        np.sum(np.exp(x))
        return np.sum(x)

    made = tg.compile(f)
    made(X)
    (recorded, left), *_ = re.findall(r"rows: (\d+) recorded, (\d+) of them", made.explain())
    assert int(recorded) - int(left) == 2 and int(left) == 2


def test_explain_lists_guards_with_lines_and_outcomes():
    text = compiled(recurrence).explain()
    assert "signature (f8[12]): 2 programs, 0 evaluations replayed" in text
    assert "guards: 11" in text
    assert re.search(r"saved_functions.py:\d+ \(bool\(\)\) was 0 × 6", text)
    assert re.search(r"saved_functions.py:\d+ \(bool\(\)\) was 1 × 5", text)


def test_explain_names_calls_large_inputs_and_signatures():
    assert re.search(r"calls: .*argsort × 1.*", compiled(picked).explain())
    assert "131072 bytes of inputs stay with the caller" in compiled(large).explain()
    made = tg.compile(lambda x, *, scale, kind: np.sum(x) * scale)
    made(X, scale=np.ones(3)[:1], kind="a")
    assert "signature (f8[12]; scale: f8[1] data; kind: 'a')" in made.explain()


def test_explain_of_native_loops_and_of_transforms():
    def f(x):
        a = x[0]
        for _ in range(100):
            a = a * x[1] + 0.5
        return a

    made = tg.compile(f, native=True)
    made.value_and_grad(X)
    made.hessian(X)
    made.wait()
    text = made.explain()
    assert "native: compiled to code of its own" in text
    assert "native: loop of 100 x 2 operations" in text
    assert "f.hessian: 1 signature" in text


def test_explain_of_functions_without_programs_and_of_files(tmp_path):
    assert tg.compile(rosenbrock).explain() == "rosenbrock: 0 signatures"
    made = tg.compile(lambda x: x)
    with pytest.warns(RuntimeWarning, match="without a program"):
        made(np.float16(1.0))
    assert "runs eagerly, without a program: an argument has dtype float16" in made.explain()
    compiled(bisection).save(tmp_path / "f.npz")
    text = tg.load(tmp_path / "f.npz").explain()
    assert "loaded from a file, which does not tell how it was made" in text
    assert "saved_functions.py" in text


def test_the_estimate_grows_with_the_work():
    few, many = (
        tg.compile(lambda x, n=n: np.sum(np.exp(x[:n] * x[:n])), verify="never")
        for n in (100, 10_000)
    )
    x = np.linspace(0.0, 1.0, 10_000)
    costs = []
    for made in (few, many):
        made.value_and_grad(x)
        code = program_of(made).code
        costs.append((nanoseconds(code, VALUE_COSTS), nanoseconds(code, GRADIENT_COSTS)))
    (v, g), (big_v, big_g) = costs
    assert v < g and big_v < big_g and big_v > 2 * v and big_g > 2 * g


# --- pictures -----------------------------------------------------------------------------------


def drawn(text):
    """Boxes and lines of a picture: (x, y, width, height), and their ends."""
    root = ET.fromstring(text)
    size = float(root.get("width")), float(root.get("height"))
    boxes = [
        tuple(float(box.get(name)) for name in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.get("x")
    ]
    ends = [
        tuple(float(re.findall(r"-?[\d.]+", path.get("d"))[k]) for k in (0, 1, 6, 7))
        for path in root.iter(f"{SVG}path")
    ]
    words = [word.text for word in root.iter(f"{SVG}text")]
    return size, boxes, ends, words


def check_places(text):
    """Boxes lie in the picture and apart; lines lead from right edges to left ones."""
    (width, height), boxes, ends, _ = drawn(text)
    for k, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x and x + w <= width and 0 <= y and y + h <= height
        for u, v, s, t in boxes[:k]:
            assert x + w <= u or u + s <= x or y + h <= v or v + t <= y
    rights = {(round(x + w, 0), round(y + h / 2, 0)) for x, y, w, h in boxes}
    lefts = {(round(x, 0), round(y + h / 2, 0)) for x, y, w, h in boxes}

    def near(point, points):
        return any(abs(point[0] - a) <= 1 and abs(point[1] - b) <= 1 for a, b in points)

    for start_x, start_y, end_x, end_y in ends:
        assert near((start_x, start_y), rights) and near((end_x, end_y), lefts)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_pictures_of_tapes_and_programs(f, tmp_path):
    made, tape = compiled(f), tg.record(f, *FUNCTIONS[f])
    for text in (made.draw(tmp_path / "f.svg"), tape.draw(tmp_path / "t.svg")):
        check_places(text)
    assert (tmp_path / "t.svg").read_text(encoding="utf-8") == text
    _, boxes, ends, words = drawn(text)
    assert len(boxes) == len(tape) and words[0] == f"tape of {len(tape)} rows"
    assert len(ends) == sum(len(set(row.inputs)) for row in tape.rows)


def test_boxes_of_a_program_follow_its_data():
    boxes = boxes_of(program_of(compiled(rosenbrock)))
    assert [box.reads for box in boxes] == [[], [0]]
    assert boxes[1].colour == GREEN and boxes[1].is_result and boxes[1].lines[0] == "fused"


def test_loops_are_marked():
    def f(x):
        a, b = x[0], x[1]
        for _ in range(50):
            a, b = a + 0.01 * b, b - 0.01 * np.sin(a)
        return a + b

    made = tg.compile(f, verify="never")
    made.value_and_grad(X)
    box = boxes_of(program_of(made))[-1]
    assert box.colour == RED and "loop of 50 x 5 operations" in box.lines


def test_what_is_read_after_a_write_follows_it():
    def f(x):
        y = np.zeros_like(x)
        y[0] = x[0] * 2.0
        return y[0] + y[1]

    tape = tg.record(f, X)
    _, boxes, ends, words = drawn(tape.draw())
    write = next(k for k, row in enumerate(tape.rows) if row.op in ("store", "write"))
    load = next(k for k, row in enumerate(tape.rows) if k > write and row.op == "load")
    x, y, w, h = boxes[write]
    assert any(abs(a - x - w) < 1 and abs(c - boxes[load][0]) < 1 for a, _, c, _ in ends)


def test_long_tapes_are_summarised():
    boxes = [Box([f"{k}"], [k - 1] if k else [], "add") for k in range(1000)]
    (one,) = summarised(boxes, 300)
    assert one.count == 1000 and one.lines == ["0 … 999", "1000 × add"] and one.reads == []
    mixed = [Box([f"{k}"], [k - 1] if k else [], "ab"[k % 2]) for k in range(1000)]
    some = summarised(mixed, 300)
    assert len(some) == 250 and some[7].lines == ["28 … 31", "2 × a", "2 × b"]
    assert [box.reads for box in some[:3]] == [[], [0], [1]]
    assert depths(some) == list(range(250))
    assert summarised(mixed[:300], 300) == mixed[:300]
    text = picture("a < b", mixed)
    check_places(text)
    assert drawn(text)[3][0] == "a < b; 1000 boxes shown as 250"


def test_a_function_without_program_has_no_picture():
    with pytest.raises(ValueError, match="rosenbrock has no program yet; call it first"):
        tg.compile(rosenbrock).draw()


def test_what_notebooks_show():
    """The picture, in a window that scrolls; a profile as its tables. Nothing is made for it."""
    tape = tg.record(lambda x: np.sum(np.sin(x)), np.ones(3))
    shown = ET.fromstring(tape._repr_html_())
    assert shown.tag == "div" and "overflow: auto" in shown.attrib["style"]
    assert tape.draw() in tape._repr_html_()

    @tg.compile
    def nothing_called(x):
        return np.sum(x * x) if x[0] < 1e9 else x[1]

    empty = "<pre>&lt;compiled function nothing_called: not called yet&gt;</pre>"
    assert nothing_called._repr_html_() == empty
    nothing_called.value_and_grad(np.ones(3))
    nothing_called.value_and_grad(np.ones(3))
    shown = nothing_called._repr_html_()
    assert shown.startswith("<pre>&lt;compiled function nothing_called: 1 signature")
    assert nothing_called.draw() in shown
    found = nothing_called.profile(np.ones(3))
    assert ET.fromstring(found._repr_html_()).text == str(found)
