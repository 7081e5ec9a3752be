"""Hand tracking: distances of points from the skin of a hand whose bones are turned."""

import numpy as np

import tapegrad as tg
from benchmarks.gradbench.timed import Timed, numbers


def pose(theta, bones):
    """Return the angles of every bone, a row each: four bones per finger, after the wrist's two."""
    angles = np.zeros((bones, 3))
    for finger in range(5):
        first, k = 2 + 4 * finger, 6 + 4 * finger
        angles[first, :2] = theta[k : k + 2]
        angles[first + 1, 0] = theta[k + 2]
        angles[first + 2, 0] = theta[k + 3]
    return angles


def turns(angles):
    """Return the matrices of rotations about x, then y, then z; rows of `angles` are (x, z, y)."""
    (a, c, b), zero, one = angles.T, np.zeros(len(angles)), np.ones(len(angles))

    def stacked(rows):
        return np.moveaxis(np.array(rows), 2, 0)

    about_x = [[one, zero, zero], [zero, np.cos(a), -np.sin(a)], [zero, np.sin(a), np.cos(a)]]
    about_y = [[np.cos(b), zero, -np.sin(b)], [zero, one, zero], [np.sin(b), zero, np.cos(b)]]
    about_z = [[np.cos(c), -np.sin(c), zero], [np.sin(c), np.cos(c), zero], [zero, zero, one]]
    return stacked(about_z) @ stacked(about_y) @ stacked(about_x)


def turn(rotation):
    """Return the matrix of the rotation about an axis by its length."""
    angle = np.sqrt(np.sum(rotation**2))
    if angle < 1e-4:
        return np.eye(3)
    x, y, z = rotation / angle
    across = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * across + (1.0 - np.cos(angle)) * (across @ across)


def skin(theta, bases, inverses, positions, weights, parents, mirrored):
    """Return where the vertices of the skin are."""
    local = np.zeros((len(parents), 4, 4))
    local[:, :3, :3] = turns(pose(theta, len(parents)))
    local[:, 3, 3] = 1.0
    relative, placed = bases @ local, []
    for bone, parent in enumerate(parents):
        placed.append(relative[bone] if parent == -1 else placed[parent] @ relative[bone])
    moved = (np.stack(placed) @ inverses)[:, :3]
    found = np.einsum("bij,vj,vb->vi", moved, positions, weights)
    if mirrored:
        found = found * np.array([-1.0, 1.0, 1.0])
    return found @ turn(theta[:3]).T + theta[3:6]


def distances(theta, points, model, corresponding):
    """Return the distances of points from the vertices that correspond to them."""
    return (points - skin(theta, *model)[corresponding]).ravel()


def surface_distances(parameters, us, points, model, corners):
    """Return the distances of points from places in triangles, which move alike by two numbers."""
    vertices = skin(parameters[2:], *model)
    u, v = (us + parameters[:2]).T[:, :, None]
    a, b, c = (vertices[corner] for corner in corners)
    return (points - (u * a + v * b + (1.0 - u - v) * c)).ravel()


def read(given):
    """Return the parameters, and the other arguments of the function they are given to."""
    data, us, theta = given["data"], given["us"], np.array(given["theta"], float)
    model = data["model"]
    names = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    arrays = [np.array(model[name], float) for name in names]
    described = (*arrays, tuple(model["parents"]), bool(model["is_mirrored"]))
    points, corresponding = np.array(data["points"], float), np.array(data["correspondences"])
    if not len(us):
        return theta, points, described, corresponding
    corners = tuple(np.array(model["triangles"])[corresponding].T)
    return np.concatenate(([0.0, 0.0], theta)), np.array(us, float), points, described, corners


def objective(parameters, *data):
    """Return the distances."""
    return of_call(data)(parameters, *data)


def jacobian(parameters, *data):
    """Return their derivatives: by the two numbers of their triangle, if any, then by the pose."""
    return of_call(data).jacobian(parameters, *data)


def of_call(data):
    """Return the compiled function that the data belong to."""
    return on_surface if len(data) == 4 else at_vertices


at_vertices, on_surface = tg.compile(distances), tg.compile(surface_distances)
FUNCTIONS = {
    "objective": Timed(read, objective, numbers),
    "jacobian": Timed(read, jacobian, numbers),
}
