"""Calibrate a model of a share to quoted volatilities, each found by `brentq` in the objective.

Options are quoted by their implied volatility, the one of the Black-Scholes formula that gives
their price. The model says that the logarithm of the share is drawn from one of two normal
distributions, a calm and a nervous one; it gives prices, so every evaluation of the misfit solves
one equation for each strike. The derivative of a root comes from its equation, whatever steps
SciPy's `brentq` took: the misfit is written as if there were no derivatives, and tapegrad compiles
it.

Run it with `python examples/volatility_smile.py`; the picture is saved as volatility_smile.png.
"""

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import ndtr

import tapegrad as tg

SHARE, YEARS, RATE = 100.0, 0.5, 0.02
STRIKES = np.array([70.0, 80.0, 90.0, 95.0, 100.0, 105.0, 110.0, 120.0, 130.0])
QUOTED = np.array([0.317, 0.268, 0.229, 0.212, 0.199, 0.190, 0.186, 0.189, 0.200])
# The probability of the nervous regime, both volatilities, and how far the share falls in it
START = np.array([0.3, 0.15, 0.3, 0.05])
BOUNDS = [(0.02, 0.9), (0.05, 0.5), (0.05, 1.0), (-0.5, 0.9)]
PICTURE = "volatility_smile.png"


def call_price(share, strike, volatility):
    """Return the price of a call by the Black-Scholes formula."""
    width = volatility * np.sqrt(YEARS)
    upper = (np.log(share / strike) + RATE * YEARS) / width + width / 2
    return share * ndtr(upper) - strike * np.exp(-RATE * YEARS) * ndtr(upper - width)


def model_price(parameters, strike):
    """Return the price of a call if one of two regimes holds; the mean of the share stays."""
    nervous, calm_volatility, nervous_volatility, fall = parameters
    after_fall = SHARE * np.exp(-fall)
    otherwise = (SHARE - nervous * after_fall) / (1 - nervous)
    return nervous * call_price(after_fall, strike, nervous_volatility) + (
        1 - nervous
    ) * call_price(otherwise, strike, calm_volatility)


def implied_volatility(price, strike):
    """Return the volatility at which the Black-Scholes formula gives a price."""
    return brentq(lambda volatility: call_price(SHARE, strike, volatility) - price, 1e-3, 3.0)


def smile(parameters):
    """Return the implied volatilities of the model."""
    return [implied_volatility(model_price(parameters, strike), strike) for strike in STRIKES]


def misfit(parameters):
    """Return the sum of the squared differences of volatilities, in hundredths."""
    total = 0.0
    for found, quoted in zip(smile(parameters), QUOTED, strict=True):
        total = total + (100 * (found - quoted)) ** 2
    return total


def calibrate(start=START):
    """Return SciPy's result of the fit."""
    compiled = tg.compile(misfit)
    return minimize(compiled.value_and_grad, start, jac=True, method="L-BFGS-B", bounds=BOUNDS)


def save_picture(result, path=PICTURE):
    """Draw the quoted smile, and the model's before and after."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.plot(STRIKES, 100 * QUOTED, "ko", label="quoted")
    axes.plot(STRIKES, 100 * np.array(smile(START)), "b:", label="start")
    axes.plot(STRIKES, 100 * np.array(smile(result.x)), "r-", label="calibrated")
    axes.set(xlabel="strike", ylabel="implied volatility (%)", title="Two regimes of a share")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Calibrate, print and draw."""
    result = calibrate()
    names = ("nervous regime", "calm volatility", "nervous volatility", "fall")
    print(f"{result.nit} iterations, {result.nfev} gradients of {len(STRIKES)} roots each")
    print(*(f"{name} {value:.3f}" for name, value in zip(names, result.x, strict=True)), sep=", ")
    print(f"root mean square error: {np.sqrt(result.fun / len(STRIKES)):.3f} hundredths")
    assert result.fun < misfit(START) / 20
    save_picture(result)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
