"""Floor 7: optimizers under PyTorch's names, which write tensors by their `grad`."""

from .adam import Adam
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "Optimizer"]

# Pickles name a class by its module: by this one, wherever the code moves.
for _name in __all__:
    if isinstance(_given := globals()[_name], type):
        _given.__module__ = __name__
