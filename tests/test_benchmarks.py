"""The benchmarks' workloads give the same values and gradients in every system installed."""

import numpy as np
import pytest

import tapegrad as tg
from benchmarks import custom, figures, operations, peer_forms, peers, workload_definitions


def test_numbers_keep_three_digits():
    assert [peers.shown(x) for x in (None, 0, 0.012345, 1.5, 123.4, 98765.4)] == [
        "–",
        "0",
        "0.0123",
        "1.50",
        "123",
        "98765",
    ]


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


def test_every_workload_is_compared_with_pytorch():
    assert set(peer_forms.FORMS["PyTorch"]) == set(workload_definitions.WORKLOADS)


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
