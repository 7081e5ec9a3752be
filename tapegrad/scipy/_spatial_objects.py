"""Stand-ins of objects of `scipy.spatial` that were made outside of a function that is entered."""

from __future__ import annotations

from ._neighbours import TreeTensor, kinds
from ._rotation_tensors import RotationTensor, of_scipy
from ._rotations import SlerpTensor


def of_instance(theirs):
    """The stand-in of an object; None where it is used itself."""
    if isinstance(theirs, of_scipy("Rotation")):
        return RotationTensor(theirs=theirs)
    if type(theirs) in kinds():
        return TreeTensor(theirs)
    if type(theirs) is of_scipy("Slerp"):
        return SlerpTensor.of_object(theirs)
    return None
