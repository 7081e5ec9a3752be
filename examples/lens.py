"""Shape a lens by tracing rays through it: the best sphere, and the best surface of all.

Parallel rays enter glass of index n through a flat surface and leave it through a curved one,

    z = c h^2 / (1 + sqrt(1 - (1 + k) c^2 h^2))        c: curvature, k: conic constant

A ray is a point and a direction. It meets a surface at the root of a quadratic equation, where
Snell's law bends it. SciPy's least_squares gets the heights of the rays at the focus, and their
Jacobian. A sphere (k = 0) leaves a spot; one conic leaves none, as Descartes knew: the hyperboloid
with k = -n^2 and c = 1 / (f - f n), at the distance f of the focus.

Run it with `python examples/lens.py`; the picture is saved as lens.png.
"""

import numpy as np
from scipy.optimize import least_squares

import tapegrad as tg

INDEX, FOCUS, THICKNESS = 1.5168, 100.0, 14.0  # the glass BK7; lengths in mm
HEIGHTS = np.linspace(-25.0, 25.0, 21)


def trace(shape):
    """Return points and directions of the rays, each (z, h), at the start and at both surfaces."""
    curvature = shape[0] / (FOCUS - FOCUS * INDEX)
    surfaces = [(-THICKNESS, 0.0, 0.0, INDEX), (0.0, curvature, shape[1], 1.0)]
    point = np.array([np.full(len(HEIGHTS), -30.0), HEIGHTS])
    direction = np.array([np.ones(len(HEIGHTS)), np.zeros(len(HEIGHTS))])
    way, before = [(point, direction)], 1.0
    for place, c, k, after in surfaces:
        z, h = point[0] - place, point[1]
        dz, dh = direction
        a = c * (dh**2 + (1 + k) * dz**2)
        b = c * (h * dh + (1 + k) * z * dz) - dz
        rest = c * (h**2 + (1 + k) * z**2) - 2 * z
        point = point + direction * rest / (np.sqrt(b**2 - a * rest) - b)
        normal = np.array([c * (1 + k) * (point[0] - place) - 1, c * point[1]])
        normal = normal / np.sqrt(np.sum(normal**2, axis=0))
        cosine, ratio = -np.sum(normal * direction, axis=0), before / after
        bent = ratio * cosine - np.sqrt(1 - ratio**2 * (1 - cosine**2))
        direction, before = ratio * direction + bent * normal, after
        way.append((point, direction))
    return way


def spot(shape, place=FOCUS):
    """Return the heights of the rays at the focus."""
    (z, h), (dz, dh) = trace(shape)[-1]
    return h + (place - z) * dh / dz


def save_picture(shapes, path="lens.png"):
    """Draw the rays through both lenses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.2), layout="constrained")
    for axes, shape in zip(figure.subplots(2, sharex=True), shapes, strict=True):
        points = [*(point for point, _ in trace(shape)), [0 * HEIGHTS + 115, spot(shape, 115)]]
        axes.plot(*np.array(points).swapaxes(0, 1), color="tab:red", lw=0.8)
        axes.fill_betweenx(points[-2][1], -THICKNESS, points[-2][0], color="tab:blue", alpha=0.3)
        size = np.sqrt(np.mean(spot(shape) ** 2))
        axes.set(title=f"k = {shape[1]:.4f}: spot of {size:.2f} mm", ylabel="h / mm", aspect=1)
    axes.set_xlabel("z / mm")
    figure.savefig(path, dpi=110)


def main():
    """Optimise, compare with Descartes, and draw."""
    sphere, conic = tg.compile(lambda c: spot([c[0], 0.0])), tg.compile(spot)
    start = [*least_squares(sphere, [1.0], sphere.jacobian).x, 0.0]
    best = least_squares(conic, start, conic.jacobian, xtol=1e-12).x
    print(f"best sphere {start}, best conic {best}, that of Descartes {[1.0, -(INDEX**2)]}")
    assert np.allclose([*best, *spot(best)], [1.0, -(INDEX**2), *np.zeros(len(HEIGHTS))], atol=1e-9)
    save_picture([start, best])


if __name__ == "__main__":
    main()
