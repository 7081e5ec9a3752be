"""Floor 7: optimizers under PyTorch's names, which write tensors by their `grad`."""

from .adam import Adam
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "Optimizer"]
