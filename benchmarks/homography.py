"""A sampling grid warped by a batch of homographies: the backward pass, beside PyTorch's."""

import importlib.util
from pathlib import Path

from benchmarks import figures

WIDTH = HEIGHT = 64
BATCH = 8
_PATH = Path(__file__).resolve().parent.parent / "examples" / "homography.py"
_spec = importlib.util.spec_from_file_location("homography_example", _PATH)
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)


def inputs(system):
    """Return the function that makes inputs in a system."""
    if system == "tapegrad":
        import tapegrad as tg

        return lambda array: tg.tensor(array, requires_grad=True)
    import torch

    torch.set_num_threads(1)
    return lambda array: torch.tensor(array, requires_grad=True)


def backward_seconds(system, way="with_broadcasting", times=100):
    """Return the least time of a backward pass to the matrices and the grid, recorded before."""
    made = [example.homographies(BATCH), *example.grid(WIDTH, HEIGHT)]
    tensors = [inputs(system)(array) for array in made]
    seconds = []
    for _ in range(times):
        u, v = getattr(example, way)(*tensors)
        loss = (u * u + u * v).sum()
        seconds.append(figures.best(loss.backward, 1))
    return min(seconds)


def track_broadcasting(system):
    """The entries of the matrices broadcast against the grid."""
    return 1e6 * backward_seconds(system)


def track_repeat():
    """Everything repeated to the full shape first; tapegrad only."""
    return 1e6 * backward_seconds("tapegrad", "with_repeat")


track_broadcasting.unit = track_repeat.unit = "us"
track_broadcasting.params = ["tapegrad", "PyTorch"]
track_broadcasting.param_names = ["system"]
