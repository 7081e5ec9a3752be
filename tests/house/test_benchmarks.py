"""The benchmarks' workloads give the same values and gradients in every system installed."""

import importlib
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from source_rules import ROOT

import tapegrad as tg
from benchmarks import (
    batches,
    branches,
    branching_tables,
    branching_workloads,
    computed_indices,
    conversion,
    custom,
    entering,
    figures,
    fits_in_processes,
    history,
    limits,
    linear_algebra,
    newton_of_a_field,
    numba_functions,
    operations,
    peer_forms,
    peers,
    powers,
    programs,
    rows,
    second_call,
    stand_in,
    startup,
    stiff_errors,
    workload_definitions,
)


def test_numbers_keep_three_digits():
    assert [peers.shown(x) for x in (None, 0, 0.012345, 1.5, 123.4, 98765.4)] == [
        "–",
        "0",
        "0.0123",
        "1.50",
        "123",
        "98765",
    ]


@pytest.mark.parametrize("name", stand_in.FUNCTIONS)
def test_functions_of_the_stand_in_are_numpys(name):
    data = np.linspace(0.5, 2.0, 50), np.linspace(0.1, 3.0, 50)
    found, wanted = (stand_in.FUNCTIONS[name](module, *data) for module in (tg.numpy, np))
    assert found == wanted and type(found) is type(wanted)


@pytest.mark.parametrize("name", entering.LOOPS)
def test_gradients_of_entered_functions_are_those_by_hand(name):
    by_hand, entered = entering.pair(
        getattr(entering.PLAIN, name), other=getattr(entering.BY_HAND, name)
    )
    (value, gradient), (found, found_gradient) = by_hand(), entered()
    assert found == value and np.array_equal(found_gradient, gradient) and gradient.any()


def test_functions_of_numba_are_compared(capsys, monkeypatch):
    assert numba_functions.main(["quaternions", "--quick"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].startswith("| `quaternions` |") and rows[3].startswith("geometric mean")
    monkeypatch.setattr(numba_functions, "differs", lambda name, made: 1e-3)
    assert numba_functions.main(["quaternions", "--quick"]) == 1


def test_a_wrong_gradient_is_seen():
    assert peers.disagreement((1.0, [[1.0, 2.0]]), (1.0, [[1.0, 2.0]])) == 0
    assert peers.disagreement((1.0, [[1.0, 2.0]]), (1.0, [[1.0, 2.001]])) > peers.TOLERANCE
    assert peers.disagreement((1.0, [[1.0]]), (1.0, [[1.0, 2.0]])) == float("inf")


@pytest.mark.parametrize("name", ["small", "gmm", "heat", "mlp", "lorenz", "lynx_hare"])
def test_workload_agrees_with_pytorch(name):
    pytest.importorskip("torch")
    ours = workload_definitions.value_and_gradients(name)()
    theirs = peer_forms.FORMS["PyTorch"][name]()()
    assert peers.disagreement(ours, theirs) < 1e-11


@pytest.mark.parametrize("name", rows.NAMES)
def test_workload_of_rows_agrees_with_pytorch(name):
    pytest.importorskip("torch")
    ours, theirs = (rows.prepared(name, s, small=True)() for s in (peers.EAGER, "PyTorch"))
    assert peers.disagreement(ours, theirs) < 1e-11


@pytest.mark.parametrize("name", ["cube", "three_halves", "particles", "attention"])
def test_powers_agree_with_pytorch(name):
    pytest.importorskip("torch")
    ours, theirs = (powers.builders(name)[system]()() for system in (peers.EAGER, "PyTorch"))
    assert peers.disagreement(ours, theirs) < 1e-11


def test_every_workload_is_compared_with_pytorch():
    assert set(peer_forms.FORMS["PyTorch"]) == set(workload_definitions.WORKLOADS)


@pytest.mark.parametrize("name", ["small", "gmm", "heat", "mlp", "lorenz", "lynx_hare"])
def test_workload_replayed_agrees(name):
    recorded = workload_definitions.value_and_gradients(name)()
    assert peers.disagreement(programs.prepared(name, False)(), recorded) < 1e-11


def test_a_workload_that_cannot_be_replayed_is_an_error(monkeypatch):
    def odd():
        return workload_definitions.Workload(lambda x: np.sum(x.astype(np.float32)), (np.ones(2),))

    monkeypatch.setitem(workload_definitions.WORKLOADS, "odd", odd)
    with pytest.raises(RuntimeWarning):
        workload_definitions.replayed("odd", native=False)


@pytest.mark.parametrize("name", limits.LIMITS)
def test_gradients_written_by_hand_agree(name):
    by_hand = limits.LIMITS[name]()()
    assert peers.disagreement(by_hand, workload_definitions.value_and_gradients(name)()) < 1e-11


def test_every_workload_has_its_bars():
    assert set(peers.BARS) == set(workload_definitions.WORKLOADS)


def test_a_missed_bar_is_printed(capsys):
    times = {peers.REPLAY: 2.0, peers.NATIVE: 0.5, peers.LIMIT: 0.5, "JAX": 1.0}
    peers.table_of_bars({"heat": times, "chain": times})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "| `heat` | 2.00 | 2.00 JAX | 0.500 | 1.00 JAX |",
        "| `chain` | 2.00 missed | 0.200 JAX | 1.00 | 1.40 limit |",
    ]


def test_programs_are_measured():
    calls = figures.call_costs(many=2)
    assert calls["from Python"] > 0 and calls["from Numba"] > 0
    assert [threads for threads, _ in figures.map_costs(3, times=1)] == [1, 2]
    assert all(seconds > 0 for seconds in figures.first_calls("small", times=1))
    assert all(seconds > 0 for seconds in figures.filter_costs(20, times=1))
    assert figures.program_costs(2000)[2] > 0


@pytest.mark.parametrize("name", operations.track_record.params)
def test_every_operation_is_measured(name):
    forward, reverse = figures.operation_costs(name, 20, 2, times=1)
    assert forward > 0 and reverse > 0


def test_the_body_is_the_same_in_both_forms():
    given = custom.inputs(50)
    of_arrays, fused = custom.FORMS["NumPy"], custom.FORMS["elementwise"]
    np.testing.assert_allclose(fused(*given), of_arrays(*given), 1e-12)
    assert custom.seconds("elementwise", "gradient", size=50, times=1) > 0


def test_the_loop_over_elements_squares():
    x = tg.tensor([[1.0, -2.0]], requires_grad=True)
    custom.Square.apply(x).sum().backward()
    assert x.grad.tolist() == [[2.0, -4.0]]
    assert all(seconds > 0 for seconds in custom.loop_seconds(3, times=1).values())


@pytest.mark.parametrize("name", batches.FUNCTIONS)
def test_batches_are_those_of_the_loop(name):
    one, batch = batches.calls(name, "gradient")
    values, gradients = tg.vmap(one)(batch[:12])
    for k, (value, gradient) in enumerate(map(one, batch[:12])):
        np.testing.assert_allclose(values[k], value)
        np.testing.assert_allclose(gradients[k], gradient)


@pytest.mark.parametrize("name", linear_algebra.NAMES)
def test_workload_of_matrices_agrees_with_pytorch(name):
    pytest.importorskip("torch")
    ours, theirs = (linear_algebra.prepared(name, s, small=True)() for s in ("tapegrad", "PyTorch"))
    assert peers.disagreement(ours, theirs) < 1e-11


@pytest.mark.parametrize("name", linear_algebra.NAMES)
def test_workload_of_matrices_replayed_agrees(name):
    tiers = peers.EAGER, peers.REPLAY
    recorded, replayed = (linear_algebra.prepared(name, tier, small=True)() for tier in tiers)
    assert peers.disagreement(replayed, recorded) < 1e-11


def test_hessian_of_the_process_is_that_of_its_program():
    tiers = peers.EAGER, peers.REPLAY
    eager, replayed = (linear_algebra.hessian_of_process(tier, small=True)() for tier in tiers)
    np.testing.assert_allclose(replayed, eager, 1e-11)


def test_steps_of_cholesky_are_measured():
    assert all(seconds > 0 for seconds in linear_algebra.cholesky_seconds(peers.EAGER, 5, 1))
    assert linear_algebra.track_reverse_of_cholesky(5) > 0


@pytest.mark.parametrize("name", branching_workloads.WORKLOADS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_with_branches_agree(name):
    eager, compiled = (branches.call_of(name, s, True) for s in (branches.EAGER, branches.COMPILED))
    for _ in range(branches.INPUTS):
        assert peers.disagreement(compiled(), eager()) < 1e-9


def test_time_warping_by_hand_agrees():
    eager, by_hand = (branches.call_of("dtw", s, True) for s in (branches.EAGER, branches.HAND))
    assert peers.disagreement(by_hand(), eager()) < 1e-11


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fits_find_the_same():
    assert branching_tables.fit(6, True) == pytest.approx(branching_tables.fit(6, False))


@pytest.mark.parametrize("name", branching_tables.TABLES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_tables_of_functions_with_branches_are_printed(name, capsys):
    branching_tables.TABLES[name](small=True)
    assert capsys.readouterr().out.count("\n") > 3


@pytest.mark.parametrize("name", conversion.FUNCTIONS)
def test_programs_of_arrays_that_are_converted(name):
    function, x = conversion.FUNCTIONS[name][0], conversion.argument(name)
    compiled = tg.compile(lambda x: function(x, 60), native=False)
    compiled.value_and_grad(x)
    found, expected = compiled.value_and_grad(2.0 * x), tg.value_and_grad(function)(2.0 * x, 60)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert conversion.costs(name, 60, times=1)[0] > 0


@pytest.mark.parametrize("name", computed_indices.WORKLOADS)
def test_computed_indices(name):
    build, make, arguments = computed_indices.WORKLOADS[name]
    data = make(True)
    program = tg.compile(build(np, data), argnums=tuple(range(len(arguments(data)))), native=False)
    found = [program.value_and_grad(*arguments(data)) for _ in range(3)][-1]
    wanted = computed_indices.prepared(name, peers.EAGER, few=True)()
    assert peers.disagreement(found, wanted) < 1e-11
    assert "1 program" in (text := str(program.explain())) and "calls of Python" not in text
    value = build(np, data)(*arguments(data))
    np.testing.assert_allclose(found[0], value, rtol=1e-11)


def test_early_exercise_in_two_forms():
    _, make, arguments = computed_indices.WORKLOADS["early_exercise"]
    forms = computed_indices.early_exercise, computed_indices.early_exercise_by_weights
    found = [
        workload_definitions.by_tapegrad(form(np, make(True)), arguments(None))() for form in forms
    ]
    assert peers.disagreement(*found) < 1e-8


#: The data of few steps, by the function.
FEW_STEPS = {
    "shallow water": dict(steps=3),
    "options": dict(draws=second_call.OPTION_DRAWS[:5, :50]),
    "leap-frog": dict(steps=6),
    "heston": dict(draws=second_call.HESTON_DRAWS[:5, :, :50]),
    "waves": dict(measured=second_call.SEISMOGRAM[:6, :12]),
    "state space": dict(series=second_call.SERIES[:5], is_seen=second_call.IS_SEEN[:5]),
}


@pytest.mark.parametrize("name", second_call.FUNCTIONS)
def test_simulations_that_are_made_programs(name):
    function, x = second_call.FUNCTIONS[name]
    x, function = x[:12, :12] if x.ndim > 1 else x, partial(function, **FEW_STEPS[name])
    compiled = tg.compile(function, native=False)
    compiled.value_and_grad(x)
    found, (value, gradient) = compiled.value_and_grad(x), tg.value_and_grad(function)(x)
    assert compiled._reason is None
    np.testing.assert_allclose(found[0], value, rtol=1e-12)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-9, atol=1e-12 * np.abs(gradient).max())


def test_fits_by_differences_and_compiled_find_the_same():
    """And errors of gradients at which times are compared are on lines through those measured."""
    theirs, ours = [
        fits_in_processes.fits("epidemic-1e-6", way) for way in ("differences", "compiled")
    ]
    np.testing.assert_allclose(ours["x"], theirs["x"], rtol=1e-3)
    np.testing.assert_allclose(ours["cost"], theirs["cost"], rtol=1e-6)
    rows = [("Radau", 1.0, spent, 0.0, error) for spent, error in ((1.0, 1e-2), (4.0, 1e-4))]
    np.testing.assert_allclose(stiff_errors.at_error(rows, 1e-3), 2.0)
    assert stiff_errors.at_error(rows, 1e-5) is None


def test_the_field_is_differentiated():
    """Gradients are compared with a difference there."""
    assert min(newton_of_a_field.measured(5).values()) > 0.0


def test_kernels_of_a_first_use_are_counted():
    assert figures.kernels_compiled("import tapegrad") == 0
    assert "gradient" in startup.track_kernels.params


def test_the_history_measures_what_there_is():
    _, measure = history.commands(history.BENCHMARKS)
    chosen = re.compile(measure[measure.index("--bench") + 1])
    for name in history.BENCHMARKS:
        module, function = name.split(".")
        assert hasattr(importlib.import_module(f"benchmarks.{module}"), function)
        assert chosen.search(name) and chosen.search(f"{name}(1000)")
    assert not chosen.search("record.track_scalars") and not chosen.search("forward.track_scalar")


def test_benchmarks_are_listed_without_other_systems():
    """asv imports all of them in an environment with nothing but the package."""
    script = """
import importlib.util, pkgutil, sys
class Nothing:
    def find_spec(name, path, target=None):
        if name.partition(".")[0] in ("autograd", "casadi", "dask", "distributed", "jax", "torch"):
            raise ModuleNotFoundError(name)
find = importlib.util.find_spec
def found_or_not(name):
    try:
        return find(name)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = found_or_not
sys.meta_path.insert(0, Nothing)
import benchmarks
for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
    importlib.import_module(found.name)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
