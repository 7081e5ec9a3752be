"""Warp a sampling grid by a batch of homographies, with copies and by broadcasting.

Both ways give the same gradients; the profiler says what the copies cost, and where they are made.
Run it with `python examples/homography.py`.
"""

import numpy as np

import tapegrad as tg


def grid(width, height):
    """Return x and y of points on [−1, 1]², each of shape (height, width)."""
    return np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))


def homographies(batch):
    """Return matrices near the identity, of shape (batch, 3, 3)."""
    generator = np.random.default_rng(3)
    return np.eye(3) + 0.1 * generator.standard_normal((batch, 3, 3))


def warp(h, x, y):
    """Return the warped points: `h[i][j]` times 1, x or y, and the division by the third one."""
    u, v, w = (h[i][0] * x + h[i][1] * y + h[i][2] for i in range(3))
    return u / w, v / w


def with_repeat(matrices, x, y):
    """Return the warped grid, everything first repeated to shape (batch, height, width)."""
    batch, (height, width) = len(matrices), np.shape(x)
    x = tg.repeat(x[None], batch, axis=0)
    y = tg.repeat(y[None], batch, axis=0)
    h = [
        [tg.tile(matrices[:, i, j, None, None], (1, height, width)) for j in range(3)]
        for i in range(3)
    ]
    return warp(h, x, y)


def with_broadcasting(matrices, x, y):
    """Return the warped grid; entries of shape (batch, 1, 1) meet points of (height, width)."""
    return warp([[matrices[:, i, j, None, None] for j in range(3)] for i in range(3)], x, y)


def gradients(way, width, height, batch):
    """Return the derivatives of a smooth loss to the matrices and to the grid."""

    def loss(matrices, x, y):
        u, v = way(matrices, x, y)
        return (u * u + u * v).sum()

    return tg.grad(loss, argnums=(0, 1, 2))(homographies(batch), *grid(width, height))


def main():
    """Compare the two ways, and print what the profiler says about each."""
    found = {}
    for way in (with_repeat, with_broadcasting):
        with tg.autograd.profiler.profile() as prof:
            found[way] = gradients(way, width=32, height=24, batch=4)
        copied = sum(advice.nbytes for advice in prof.advice)
        print(f"{way.__name__}: {copied} bytes of the tape are copies")
        for advice in prof.advice:
            print(f"  {advice}")
    for repeated, broadcast in zip(*found.values(), strict=True):
        assert np.allclose(repeated, broadcast, rtol=1e-12, atol=1e-12)


if __name__ == "__main__":
    main()
