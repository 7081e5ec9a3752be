"""Bundle adjustment: errors of reprojected points, and their sparse Jacobian."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed, numbers

#: How many numbers a camera has: rotation, centre, focal length, principal point, two distortions.
CAMERA = 11
#: What errors of one observation depend on: its camera, its point, its weight.
BLOCK = CAMERA + 3 + 1


def rotated(rotation, x):
    """Return points, rotated about axes by angles that are the lengths of the axes."""
    square = np.sum(rotation**2, axis=1, keepdims=True)
    some = square != 0.0
    angle = np.sqrt(np.where(some, square, 1.0))
    axis = rotation / angle
    along = np.sum(axis * x, axis=1, keepdims=True) * (1.0 - np.cos(angle))
    turned = x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * along
    return np.where(some, turned, x + np.cross(rotation, x))


def reprojection_errors(cameras, points, weights, features):
    """Return the weighted distances of projected points from features, a row per observation."""
    seen = rotated(cameras[:, :3], points - cameras[:, 3:6])
    flat = seen[:, :2] / seen[:, 2:]
    square = np.sum(flat**2, axis=1, keepdims=True)
    distorted = flat * (1.0 + cameras[:, 9:10] * square + cameras[:, 10:] * square**2)
    projected = distorted * cameras[:, 6:7] + cameras[:, 7:9]
    return weights[:, None] * (projected - features)


def weight_errors(weights):
    """Return how far weights are from 1."""
    return 1.0 - weights**2


def moved_errors(step, cameras, points, weights, features):
    """Return the errors after one step of all cameras, points and weights."""
    camera, point, weight = step[:CAMERA], step[CAMERA:-1], step[-1]
    return reprojection_errors(cameras + camera, points + point, weights + weight, features)


def read(given):
    """Return the arguments: cameras and points, and arrays with a row per observation."""
    n, m, p = given["n"], given["m"], given["p"]
    cameras, points = (np.tile(given[name], (count, 1)) for name, count in (("cam", n), ("x", m)))
    seen_by, seen = np.arange(p) % n, np.arange(p) % m
    weights, features = np.full(p, float(given["w"])), np.tile(given["feat"], (p, 1))
    return cameras, points, weights, features, seen_by, seen


def errors(cameras, points, weights, features, seen_by, seen):
    """Return both kinds of errors."""
    reprojection = compiled(cameras[seen_by], points[seen], weights, features)
    return reprojection, weight_errors(weights)


def sparse(blocks, weight_derivatives, sizes, seen_by, seen):
    """Return the Jacobian by rows: where rows start, the columns, the values."""
    n, m, p = sizes
    columns = np.empty((p, 2, BLOCK), int)
    columns[:, :, :CAMERA] = (CAMERA * seen_by[:, None] + np.arange(CAMERA))[:, None]
    columns[:, :, CAMERA:-1] = (CAMERA * n + 3 * seen[:, None] + np.arange(3))[:, None]
    of_weights = CAMERA * n + 3 * m + np.arange(p)
    columns[:, :, -1] = of_weights[:, None]
    lengths = np.concatenate((np.full(2 * p, BLOCK), np.ones(p, int)))
    rows = np.concatenate(([0], np.cumsum(lengths)))
    values = np.concatenate((blocks.ravel(), weight_derivatives))
    return rows, np.concatenate((columns.ravel(), of_weights)), values


def jacobian(cameras, points, weights, features, seen_by, seen):
    """Return the sparse Jacobian: a row of errors depends on one camera, one point, one weight."""
    sizes = len(cameras), len(points), len(weights)
    blocks = moved.jacobian(np.zeros(BLOCK), cameras[seen_by], points[seen], weights, features)
    return sparse(blocks, of_weights(weights), sizes, seen_by, seen)


def write_errors(found):
    """Return the errors, which are the same for all observations, once."""
    reprojection, weight = found
    return {
        "reproj_error": {"elements": numbers(reprojection[0]), "repeated": len(reprojection)},
        "w_err": {"element": float(weight[0]), "repeated": len(weight)},
    }


def write_jacobian(found):
    """Return the parts of the sparse matrix by their names."""
    return dict(zip(("rows", "cols", "vals"), map(numbers, found), strict=True))


compiled = tg.compile(reprojection_errors)
moved = tg.compile(moved_errors)
of_weights = tg.compile(tg.elementwise_grad(weight_errors))
FUNCTIONS = {
    "objective": Timed(read, errors, write_errors),
    "jacobian": Timed(read, jacobian, write_jacobian),
}
