"""The profiler: what it counts, how it adds up, and that it leaves nothing behind."""

import ast
import inspect
import json
import threading

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad._core.codegen import layout
from tapegrad._core.sweep import elementwise_run, reverse, scalar_rows, timed_reverse
from tapegrad._core.tape import native_types
from tapegrad._core.tape.sweeps import Sweep
from tapegrad._core.tensor import runtime as rt
from tapegrad.autograd.profiler import _profile as calls

profile, record_function = tg.autograd.profiler.profile, tg.autograd.profiler.record_function


def averages(prof, **options):
    return {row.key: row for row in prof.key_averages(**options)}


def leaf(*shape):
    return tg.tensor(np.random.rand(*shape), requires_grad=True)


def test_rows_of_both_directions_with_their_numbers():
    x = leaf(20, 30)
    with profile() as prof:
        for _ in range(3):
            y = np.sin(x) * x
            (y * y).sum().backward()
    found = {key: row.count for key, row in averages(prof).items()}
    assert found == {
        "sin": 3,
        "multiply": 6,
        "sum": 3,
        "backward": 3,
        "reverse sweep": 3,
        "SinBackward0": 3,
        "MulBackward0": 6,
        "SumBackward0": 3,
    }
    for key, row in averages(prof).items():
        assert row.is_reverse == key.endswith("Backward0")
        assert 0 <= row.self_cpu_time_total <= row.cpu_time_total
        assert row.cpu_time == pytest.approx(row.cpu_time_total / row.count)


def test_a_conv_network_called_100_times():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )
    x, target = np.random.rand(2, 1, 6, 6), np.array([0, 2])
    with profile() as prof:
        for _ in range(100):
            nn.functional.cross_entropy(net(x), target).backward()
    found = averages(prof)
    forward = "conv2d relu max_pool2d linear cross_entropy backward".split()
    for name in [*forward, "reverse sweep"]:
        assert found[name].count == 100, name
    assert found["ContractBackward0"].count == 200
    assert found["conv2d"].cpu_time_total > found["conv2d"].self_cpu_time_total > 0
    total = prof.total_average()
    spans = [event for event in prof.events() if not event.is_reverse]
    assert total.self_cpu_time_total == pytest.approx(
        sum(e.self_cpu_time_total for e in prof.events())
    )
    assert total.count == len(prof.events()) and len(spans) < total.count


def f(x):
    """Reads, in-place writes, products, sums, scalars, arrays of several sizes."""
    y = x * 2.0
    y[1:] = y[:-1] * x[0]
    y[0] += x[2] * 3.0
    z = np.outer(y, np.ones(3000)) * np.sin(y)[:, None]
    return np.sum(np.sin(y) @ np.outer(y, y)) + tg.max(y) + z.mean()


def test_gradients_are_those_without_it():
    x = np.array([0.3, -0.4, 0.5, 0.7])
    expected = tg.grad(f)(x)
    with profile() as prof:
        assert np.array_equal(tg.grad(f)(x), expected)
        with tg.autograd.detect_anomaly():
            assert np.array_equal(tg.grad(f)(x), expected)
        jacobian = tg.jacobian(lambda x: np.sin(x) * x[0])(x)
    assert np.array_equal(jacobian, tg.jacobian(lambda x: np.sin(x) * x[0])(x))
    assert averages(prof)["reverse sweep"].count == 3
    assert np.array_equal(tg.grad(f)(x), expected)


def test_bytes_are_those_of_the_tape():
    x = leaf(100, 50)
    with profile() as prof:
        (2.0 * x * x).sum().backward()
        y = x[0, 0] * 2.0
    found = averages(prof)
    array, row, reference = 100 * 50 * 8, layout.ROW_BYTES, layout.REFERENCE_BYTES
    assert found["multiply"].cpu_memory_usage == 2 * (array + row + 3 * reference) + row
    assert found["sum"].cpu_memory_usage == row + 2 * reference
    assert found["getitem"].cpu_memory_usage == row
    assert found["MulBackward0"].cpu_memory_usage == 2 * array
    assert found["SumBackward0"].cpu_memory_usage == 8
    assert y.requires_grad


def test_a_function_made_of_others_has_their_time_and_bytes():
    x = leaf(200, 200)
    with profile() as prof:
        y = tg.mean(x, axis=0)
    mean, total, divide = (averages(prof)[key] for key in ("mean", "sum", "divide"))
    assert mean.self_cpu_memory_usage == 0
    assert mean.cpu_memory_usage == total.cpu_memory_usage + divide.cpu_memory_usage > 0
    inside = total.cpu_time_total + divide.cpu_time_total
    assert mean.cpu_time_total == pytest.approx(mean.self_cpu_time_total + inside)
    assert y.shape == (200,)


def test_rows_of_a_run_are_timed_each():
    """Rows that are swept together, block by block, have times of their own."""
    x = leaf(400, 400)
    with profile() as prof:
        (np.arctan2(x, 2.0) + x).sum().backward()
    found = averages(prof)
    assert all(found[f"{name}Backward0"].cpu_time_total > 0 for name in ("Atan2", "Add", "Sum"))
    rows = sum(row.self_cpu_time_total for row in found.values() if row.is_reverse)
    sweep = found["reverse sweep"]
    assert sweep.cpu_time_total >= rows * (1 - 1e-9)
    assert sweep.self_cpu_time_total == pytest.approx(sweep.cpu_time_total - rows)


def test_every_scalar_row_is_timed():
    x = leaf(10)
    with profile() as prof:
        s = 0.0
        for k in range(10):
            s = s + x[k] * x[k]
        s.backward(retain_graph=True)
        s.backward()
    found = averages(prof)
    assert found["MulBackward0"].count == 20
    assert found["SelectBackward0"].count == 40
    assert found["AddBackward0"].count == 20
    assert np.allclose(x.grad.numpy(), 4 * x.detach().numpy(), rtol=1e-15)


def test_writes_count_where_their_buffer_is_reached():
    x = leaf(30)
    y, z = x * 2.0, x * 3.0
    with profile() as prof:
        y[:10] = x[10:20] * 2.0
        z[0] = 1.0
        y.sum().backward()
    assert averages(prof)["setitem"].count == 2
    assert averages(prof)["CopySlices"].count == 1


def test_what_no_derivative_needs_is_timed_too():
    x = leaf(30)
    with profile() as prof, tg.no_grad():
        y = np.exp(x) > 1.0
    assert averages(prof)["exp"].count == averages(prof)["gt"].count == 1
    assert prof.total_average().cpu_memory_usage == 0 and y.all()


# --- the report -------------------------------------------------------------------------------


def lines_of(prof, **options):
    text = prof.key_averages().table(**options)
    return [line.split()[0] for line in text.split("---\n")[2].split("\n---")[0].splitlines()]


def test_the_table():
    x = leaf(50, 50)
    with profile() as prof:
        np.sin(np.sin(x) * 2.0).sum().backward()
    text = prof.key_averages().table(sort_by="count", row_limit=3, header="Title")
    head, rule, titles, *_ = text.splitlines()
    assert head == "Title" and set(rule) == {"-", " "}
    for title in "Self CPU %|Self CPU|CPU total|CPU time avg|Bytes|# of Calls".split("|"):
        assert title in titles
    assert "Self CPU time total: " in text and "grew for nothing" not in text
    assert lines_of(prof, sort_by="count", row_limit=2) == ["sin", "SinBackward0"]
    for column in ("self_cpu_time_total", "cpu_time_total", "cpu_time", "cpu_memory_usage"):
        rows = prof.key_averages()
        best = max(rows, key=lambda row: getattr(row, column)).key
        assert lines_of(prof, sort_by=column, row_limit=1)[0] == best.split()[0]
    assert len(lines_of(prof, row_limit=-1)) == len(prof.key_averages())
    assert str(prof) == prof.table() == str(prof.events())
    shares = [float(part) for part in text.replace("%", " ").split() if part.endswith(".00")]
    assert all(share <= 100 for share in shares)


def test_a_wrong_column_is_named():
    with pytest.raises(ValueError, match="table: sort_by is 'gpu'; it must be one of cpu_time,"):
        tg.autograd.profiler.EventList().table(sort_by="gpu")


def test_the_trace_is_json_that_nests(tmp_path):
    x = leaf(50, 50)
    with profile() as prof:
        tg.mean(np.sin(x), axis=0).sum().backward()
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = {event["name"]: event for event in trace["traceEvents"]}
    assert len(trace["traceEvents"]) == len(prof.events())
    for event in events.values():
        assert event["ph"] == "X" and event["dur"] >= 0 and event["ts"] > 0
        assert {"pid", "tid", "cat", "args"} <= set(event)
    sweep, row, backward = (events[key] for key in ("reverse sweep", "SinBackward0", "backward"))
    assert backward["ts"] <= sweep["ts"] <= row["ts"]
    assert row["ts"] + row["dur"] <= sweep["ts"] + sweep["dur"]
    assert row["cat"] == "reverse" and sweep["cat"] == "forward"
    line = test_the_trace_is_json_that_nests.__code__.co_firstlineno + 3
    assert row["args"]["line"] == f"{__file__}:{line} in test_the_trace_is_json_that_nests"


def test_grouping_by_shapes_and_by_lines():
    x, y = leaf(5), leaf(6)
    with profile(record_shapes=True) as prof:
        a, b = np.sin(x), np.sin(y)
        np.sin(x)
    shapes = {row.input_shapes: row.count for row in prof.key_averages(group_by_input_shape=True)}
    assert shapes == {((5,),): 2, ((6,),): 1}
    lines = {row.stack[0][1]: row.count for row in prof.key_averages(group_by_stack_n=1)}
    first = inspect.currentframe().f_code.co_firstlineno + 3
    assert lines == {first: 2, first + 1: 1}
    assert "[[5]]" in prof.key_averages(group_by_input_shape=True).table()
    assert f"test_profiler.py:{first}" in prof.key_averages(group_by_stack_n=1).table()
    assert a.requires_grad and b.requires_grad


def test_record_function_names_a_block():
    x = leaf(5)

    @record_function("step")
    def step():
        np.sin(x)

    step()  # outside a profile it does nothing
    with profile() as prof:
        step()
        with record_function("mine"):
            np.sin(np.sin(x))
    found = averages(prof)
    assert found["step"].count == found["mine"].count == 1 and found["sin"].count == 3
    inside = found["step"].cpu_memory_usage + found["mine"].cpu_memory_usage
    assert inside == found["sin"].cpu_memory_usage


# --- on and off -------------------------------------------------------------------------------


def state():
    """Everything that a profile replaces."""
    table = native_types.get_word(layout.STATE_SLOW)
    names = {
        (id(space), name): id(f) for space, names in calls._spaces() for name, f in names.items()
    }
    words = [id(rt.slow[name]) for name in layout.OPERATORS]
    slow = np.frombuffer((np.ctypeslib.ctypes.c_int64 * len(words)).from_address(table), np.int64)
    return (
        names,
        words == slow.tolist(),
        rt.row,
        Sweep.run,
        native_types.get_word(layout.STATE_SPECIAL),
    )


def test_nothing_is_left_when_it_is_over():
    leaf(3)
    before = state()
    assert before[1] and before[4] == 0
    with pytest.raises(KeyError), profile():
        inside = state()
        raise KeyError
    after = state()
    assert inside[2:] != before[2:] and not inside[1]
    assert {key: f for key, f in after[0].items() if key in before[0]} == before[0]
    assert after[1:] == before[1:]


def test_the_text_of_the_sweep_is_the_ordinary_one_and_more():
    assert timed_reverse.source().startswith(reverse.SOURCE)
    assert timed_reverse.scalars_source().startswith(scalar_rows.source())
    assert "clock" not in reverse.SOURCE + scalar_rows.source()
    timed, tree = timed_reverse.pointwise_source(), ast.parse(inspect.getsource(elementwise_run))
    names = [one.name for one in ast.parse(timed).body if isinstance(one, ast.FunctionDef)]
    assert names == ["row_block", "sweep_run", "pointwise_run", "pointwise"]
    own = [ast.unparse(one) for one in tree.body if getattr(one, "name", "") in names[1:]]
    assert len(own) == 2 and all(text in timed for text in own)


def test_one_profile_at_a_time():
    with profile() as prof, profile(enabled=False) as other:
        with pytest.raises(RuntimeError, match="another profile is active; leave its block"):
            profile().__enter__()
        np.sin(leaf(3))
    assert averages(prof)["sin"].count == 1
    assert str(other) == "<nothing was profiled>" and not other.events()
    with profile():
        pass


def test_threads_are_kept_apart():
    def work():
        x = leaf(50)
        for _ in range(20):
            np.sin(x).sum().backward()

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = averages(prof)
    assert found["sin"].count == found["SinBackward0"].count == 60
    assert len({event.thread for event in prof.events()}) == 3
    assert found["backward"].self_cpu_time_total >= 0
