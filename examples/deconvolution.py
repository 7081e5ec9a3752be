"""Sharpen a blurred and noisy image, by Fourier transforms and total variation.

The image x that is looked for minimises

    |K x - y|^2 / 2 + weight * sum(sqrt(dx^2 + dy^2 + eps^2))

where y was seen, K blurs by a Gaussian (a product of `np.fft.rfft2`), and the second term, the
total variation with its corner rounded off, prefers flat regions with sharp edges. All of it is
NumPy; tapegrad compiles it with its gradient for SciPy's L-BFGS-B.

Run it with `python examples/deconvolution.py`; the picture is saved as deconvolution.png.
"""

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg

SIDE, WIDTH, NOISE = 64, 2.0, 0.01
WEIGHT, ROUNDING = 5e-4, 1e-2
# What a Gaussian of this width multiplies each frequency by
FREQUENCY = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE))
TRANSFER = np.exp(-2 * (np.pi * WIDTH * FREQUENCY) ** 2)
PICTURE = "deconvolution.png"


def picture():
    """Return the image to recover: a ring, a box, a bar and a bright dot on a dark ground."""
    y, x = np.mgrid[:SIDE, :SIDE]
    radius = np.hypot(x - 20, y - 22)
    image = np.where((radius < 14) & (radius > 7), 0.8, 0.0)
    image[38:56, 34:58] = 0.5
    image[8:34, 46:50] = 1.0
    image[44:48, 12:16] = 1.0
    return image


def blur(image):
    """Return the image blurred, its borders joined."""
    return np.fft.irfft2(np.fft.rfft2(image) * TRANSFER, s=(SIDE, SIDE))


def total_variation(image):
    """Return the sum of the lengths of the gradient, rounded where it is 0."""
    down = np.diff(image, axis=0)[:, :-1]
    right = np.diff(image, axis=1)[:-1]
    return np.sum(np.sqrt(down**2 + right**2 + ROUNDING**2))


def objective(pixels, seen):
    """Return what the recovered image minimises; `pixels` is the image as a vector."""
    image = np.reshape(pixels, (SIDE, SIDE))
    return np.sum((blur(image) - seen) ** 2) / 2 + WEIGHT * total_variation(image)


def observe(image):
    """Return the image blurred, with noise."""
    return blur(image) + NOISE * np.random.default_rng(2).standard_normal(image.shape)


def recover(seen, iterations=300):
    """Return the recovered image and SciPy's result; no pixel is below 0 or above 1."""
    result = minimize(
        tg.compile(objective).value_and_grad,
        np.clip(seen, 0, 1).ravel(),
        args=(seen,),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, 1)] * seen.size,
        options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-12},
    )
    return result.x.reshape(seen.shape), result


def error(image, true):
    """Return the distance of two images relative to the second one's norm."""
    return float(np.linalg.norm(image - true) / np.linalg.norm(true))


def save_picture(images, path=PICTURE):
    """Draw the images, and one row of each of them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(14, 3.7), layout="constrained")
    for one, (name, image) in zip(axes, images.items(), strict=False):
        one.imshow(image, cmap="gray", vmin=0, vmax=1)
        one.axhline(46, color="tab:red", lw=0.7)
        one.set(title=name, xticks=[], yticks=[])
    for (name, image), style in zip(images.items(), ("k-", "b:", "r-"), strict=True):
        axes[-1].plot(image[46], style, label=name, lw=1.3)
    axes[-1].set(title="the marked row", xlabel="column")
    axes[-1].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Blur, recover, compare and draw."""
    true = picture()
    seen = observe(true)
    found, result = recover(seen)
    before, after = error(seen, true), error(found, true)
    print(f"{true.size} unknowns, {result.nit} iterations, {result.nfev} gradients")
    print(f"relative error: {before:.3f} as seen, {after:.3f} recovered")
    assert after < before / 2
    save_picture({"true": true, "seen": seen, "recovered": found})
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
