"""Sums into views with overlapping elements, as those of sliding windows."""

import numpy as np


def add_to_windows(target: np.ndarray, values) -> None:
    """target += values, where elements of `target` may overlap, as in windows."""
    if target.flags.c_contiguous:
        target[...] += values
        return
    values = np.broadcast_to(values, target.shape)
    apart: list[int] = []
    for axis in sorted(range(target.ndim), key=lambda k: -target.shape[k]):
        if lie_apart(target, [*apart, axis]):
            apart.append(axis)
    others = [axis for axis in range(target.ndim) if axis not in apart]
    target, values = target.transpose(*others, *apart), values.transpose(*others, *apart)
    for index in np.ndindex(target.shape[: len(others)]):
        target[(*index, ...)] += values[index]


def add_to_view(target: np.ndarray, values: np.ndarray) -> None:
    """The same where axes of `target` may be broadcast: all their elements are one."""
    if target.flags.c_contiguous:
        np.add(target, values, out=target, casting="same_kind")
        return
    for axis, stride in enumerate(target.strides):
        if stride == 0 and target.shape[axis] > 1:
            target = target[(slice(None),) * axis + (slice(0, 1),)]
            values = values.sum(axis=axis, keepdims=True)
    add_to_windows(target, values)


def lie_apart(array: np.ndarray, axes) -> bool:
    """Whether steps along these axes never lead to an element twice; False if that is unclear."""
    reach = 0
    for axis in sorted(axes, key=lambda k: abs(array.strides[k])):
        if array.shape[axis] > 1 and abs(array.strides[axis]) <= reach:
            return False
        reach += (array.shape[axis] - 1) * abs(array.strides[axis])
    return True
