"""Estimate the level of the Nile by a Kalman filter, with forty years of measurements left out.

The annual flow at Aswan, 1871 to 1970, is a level that moves as a random walk, seen with errors.
The filter computes the likelihood of the two variances, and is a loop with an `if`: a year without
measurement, which is NaN, moves the level and tells nothing. With all years the variances are those
of Durbin and Koopman, "Time Series Analysis by State Space Methods" (2012), 15099 and 1469.1.

Run it with `python examples/nile_level.py`; the picture is saved as nile_level.png.
"""

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg

FLOW = """1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958
1140 1100 1210 1150 1250 1260 1220 1030 1100 774 840 874 694 940 833 701 916 692 1020 1050 969 831
726 456 824 702 1120 1100 832 764 821 768 845 864 862 698 845 744 796 1040 759 781 865 845 944 984
897 822 1010 771 676 649 846 812 742 801 1040 860 874 848 890 744 749 838 1050 918 986 797 923 975
815 1020 906 901 1170 912 746 919 718 714 740"""
YEARS, FLOW = np.arange(1871, 1971), np.array(FLOW.split(), float)
GAPS = np.where((YEARS - 1871) % 40 >= 20, np.nan, FLOW)  # 1891-1910 and 1931-1950 are missing
TITLES = ("all years", "forty years left out")


def kalman_filter(logs, flow):
    """Return level and variance after each year, and the negative log-likelihood."""
    noise, step = np.exp(logs)
    level, variance = flow[0], noise  # nothing is known before the first year
    levels, variances, loss = [level], [variance], 0.0
    for y in flow[1:]:
        variance = variance + step
        if not np.isnan(y):
            spread = variance + noise
            loss = loss + 0.5 * (np.log(2 * np.pi * spread) + (y - level) ** 2 / spread)
            gain = variance / spread
            level, variance = level + gain * (y - level), variance * (1 - gain)
        levels.append(level)
        variances.append(variance)
    return np.array(levels), np.array(variances), loss


def fit(flow):
    """Return the logarithms of both variances, and their standard errors."""
    loss = tg.compile(lambda logs: kalman_filter(logs, flow)[2])
    result = minimize(loss.value_and_grad, np.log([1e4, 1e3]), jac=True, tol=1e-8)
    return result.x, np.sqrt(np.diag(np.linalg.inv(loss.hessian(result.x))))


def save_picture(fits, path="nile_level.png"):
    """Draw the measurements and the levels, with two standard deviations."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    both = figure.subplots(2, sharex=True, sharey=True)
    for axes, (logs, _, flow), title in zip(both, fits, TITLES, strict=True):
        levels, variances, _ = kalman_filter(logs, flow)
        spread = 2 * np.sqrt(variances)
        axes.fill_between(YEARS, levels - spread, levels + spread, color="tab:blue", alpha=0.2)
        axes.plot(YEARS, levels, color="tab:blue", label="level after each year")
        axes.plot(YEARS, flow, "k.", label="measured")
        axes.set(ylabel="flow / 10$^8$ m$^3$", title=f"The Nile at Aswan, {title}")
    both[0].legend(loc="upper right")
    both[1].set_xlabel("year")
    figure.savefig(path, dpi=110)


def main():
    """Fit to all years and to those with measurements, compare with the book, and draw."""
    fits = [(*fit(flow), flow) for flow in (FLOW, GAPS)]
    for logs, errors, _ in fits:
        print(f"variances {np.exp(logs).round(1)}, errors of their logarithms {errors.round(2)}")
    assert np.allclose(np.exp(fits[0][0]), [15099, 1469.1], rtol=1e-3)
    save_picture(fits)


if __name__ == "__main__":
    main()
