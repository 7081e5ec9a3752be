"""Compare two treatments by survival times, some of them censored, with a profile likelihood.

Freireich and others (Blood 21, 1963) noted the weeks until 42 patients relapsed; the first half was
given 6-mercaptopurine. Those still well at the end (+) count by the probability of a longer time.
Times follow Weibull distributions whose scale differs. The interval of the ratio of scales has what
a likelihood-ratio test does not reject: for each value the other parameters are fitted anew.

Run it with `python examples/leukemia.py`; the picture is saved as leukemia.png.
"""

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import chdtri

import tapegrad as tg

TREATED = "6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+".split()
OTHERS = "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23".split()
WEEKS = np.array([float(one.rstrip("+")) for one in TREATED + OTHERS])
RELAPSED = np.array([not one.endswith("+") for one in TREATED + OTHERS])
IS_TREATED = np.repeat([1.0, 0.0], 21)


@tg.compile
def loss(theta):
    """Return the negative log-likelihood; theta: log ratio, log scale of the others, log shape."""
    powers = np.exp(theta[2]) * (np.log(WEEKS) - theta[1] - theta[0] * IS_TREATED)
    log_hazards = theta[2] - np.log(WEEKS) + powers
    return np.sum(np.exp(powers)) - np.sum(log_hazards[RELAPSED])


def fit(fixed=()):
    """Return the best parameters, of which the first ones may be fixed, and their loss."""

    def of_others(others):
        value, gradient = loss.value_and_grad(np.concatenate([fixed, others]))
        return value, gradient[len(fixed) :]

    found = minimize(of_others, [0.0, 2.0, 0.0][len(fixed) :], jac=True)
    return np.concatenate([fixed, found.x]), found.fun


def interval(best, least, level=0.95):
    """Return the ends of the interval of the log ratio, where the loss has risen enough."""
    most = least + chdtri(1, 1 - level) / 2
    return [brentq(lambda a: fit([a])[1] - most, best[0], best[0] + far) for far in (-2.0, 2.0)]


def save_picture(best, least, ends, path="leukemia.png"):
    """Draw the shares without relapse, by Kaplan and Meier and as fitted, and the profile."""
    from matplotlib.figure import Figure

    left, right = (figure := Figure((10, 4.2), layout="constrained")).subplots(1, 2)
    grid = np.linspace(0, 35, 200)
    for group, colour, label in ((1, "tab:blue", "6-mercaptopurine"), (0, "tab:red", "placebo")):
        weeks, relapsed = WEEKS[IS_TREATED == group], RELAPSED[IS_TREATED == group]
        kept = [1 - np.sum(relapsed[weeks == t]) / np.sum(weeks >= t) for t in np.unique(weeks)]
        left.step([0, *np.unique(weeks)], np.cumprod([1, *kept]), where="post", color=colour)
        fitted = np.exp(-((grid / np.exp(best[1] + best[0] * group)) ** np.exp(best[2])))
        left.plot(grid, fitted, "--", color=colour, label=label)
    left.set(xlabel="weeks", ylabel="share without relapse", ylim=(0, 1.02))
    logs = np.linspace(ends[0] - 0.2, ends[1] + 0.2, 30)
    right.plot(np.exp(logs), [fit([a])[1] - least for a in logs], color="tab:blue")
    right.axvspan(*np.exp(ends), color="tab:blue", alpha=0.15, label="95 % interval")
    right.set(xlabel="ratio of the times until a relapse", ylabel="rise of the loss")
    figure.legend(loc="outside upper center", ncols=3)
    figure.savefig(path, dpi=110)


def main():
    """Fit, find the interval, compare with the estimates of `survreg` in R, and draw."""
    best, least = fit()
    ends = interval(best, least)
    print(f"the time is {np.exp(best[0]):.2f} times as long, 95 % interval {np.exp(ends)}")
    assert np.allclose([*best, least], [1.267, 2.248, 0.312, 106.579], atol=1e-3)
    save_picture(best, least, ends)


if __name__ == "__main__":
    main()
