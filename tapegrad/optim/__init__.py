"""Optimizers under PyTorch's names, which write tensors by their `grad`."""

from ._optimizers import SGD, Adam, Optimizer

__all__ = ["SGD", "Adam", "Optimizer"]

# Pickles name a class by its module: by this one, wherever the code moves.
for _name in __all__:
    if isinstance(_given := globals()[_name], type):
        _given.__module__ = __name__
