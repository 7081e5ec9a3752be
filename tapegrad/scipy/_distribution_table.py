"""Which methods of SciPy's distributions have derivatives, a line for each distribution.

A method is in the table if all its partial derivatives agree with differences of SciPy's values in
`tests/scipy/test_scipy_distributions.py`, which follows it.
"""

from __future__ import annotations

from ._differentiable import is_before

#: Methods by a letter: density, distribution function, quantiles, moments, entropy.
_GROUPS = {
    "D": "pdf logpdf nnlf",
    "F": "cdf sf logcdf logsf",
    "Q": "ppf isf median interval",
    "M": "mean var std stats",
    "E": "entropy",
}
_OF_DISCRETE = _GROUPS | {"D": "pmf logpmf"}
#: The method's first argument in SciPy, by its name.
POINTS = {
    **dict.fromkeys("pdf logpdf cdf sf logcdf logsf".split(), "x"),
    **dict.fromkeys("pmf logpmf".split(), "k"),
    **dict.fromkeys("ppf isf".split(), "q"),
    "interval": "confidence",
}
METHODS = (*" ".join(_GROUPS.values()).split(), "pmf", "logpmf", "support", "rvs")
_LINES = """
alpha D F Q
anglit D F Q M E
arcsine D F Q M E
argus D F Q M
beta D F Q M E
betaprime D F Q M
bradford D F Q M E
burr D F Q M
burr12 D F Q M
cauchy D F Q E
chi D F Q M E
chi2 D F Q M E
cosine D F Q M E
crystalball D F Q
dgamma D F M E
dpareto_lognorm D F Q
dweibull D F Q M E
erlang D F Q M E
expon D F Q M E
exponnorm D F Q M
exponpow D F Q
exponweib D F Q
f D F Q M E
fatiguelife D F Q M
fisk D F Q M E
foldcauchy D F Q
foldnorm D F Q M
gamma D F Q M E
genexpon D F Q
genextreme D F Q M E
gengamma D F Q M E
genhalflogistic D F Q E
genhyperbolic D M
geninvgauss D M
genlogistic D F Q M E
gennorm D F Q M E
halfgennorm D F Q E
genpareto D F Q M E
gibrat D F Q M E
gompertz D F Q
gumbel_l D F Q M E
gumbel_r D F Q M E
halfcauchy D F Q E
halflogistic D F Q M E
halfnorm D F Q M E
hypsecant D F Q M E
invgamma D F Q M E
invgauss D F Q M
invweibull D F Q M E
jf_skew_t D F Q M
johnsonsb D F Q
johnsonsu D F Q M
kappa4 D F
kappa3 D F Q
kstwobign F Q
laplace D F Q M E
laplace_asymmetric D F Q M E
levy D F Q
irwinhall D F Q
levy_l D F Q
loggamma D F Q M E
logistic D F Q M E
loglaplace D F Q M E
lognorm D F Q M E
loguniform D F Q M E
lomax D F Q M E
maxwell D F Q M E
mielke D F Q M
moyal D F Q M
nakagami D F Q M E
ncf D F Q
ncx2 D F Q M
norm D F Q M E
norminvgauss D M
pareto D F Q M E
pearson3 D F Q M
powerlaw D F Q M E
powerlognorm D F Q
powernorm D F Q
rayleigh D F Q M E
rdist D F Q M
recipinvgauss D F Q
reciprocal D F Q M E
rel_breitwigner D F Q M
rice D F Q M
semicircular D F Q M E
skewcauchy D F Q
skewnorm D F Q M
t D F Q M E
trapezoid D F Q M E
triang D F Q M E
truncexpon D F Q M E
truncnorm D F Q M E
truncpareto D F Q E
truncweibull_min D F Q M
tukeylambda D F Q M
uniform D F Q M E
vonmises D F Q E
vonmises_line D F Q E
wald D F Q M E
weibull_max D F Q M E
weibull_min D F Q M E
wrapcauchy D F Q E
"""
_DISCRETE_LINES = """
bernoulli D F Q M E
betabinom D F Q M
betanbinom D F Q M
binom D F Q M E
boltzmann D F Q M
dlaplace D F Q M E
geom D F Q M E
hypergeom D F Q M
logser D F Q M
nbinom D F Q M
planck D F Q M E
poisson D F Q M
randint D F Q M E
skellam D F Q M
zipf D F Q
zipfian D F Q
yulesimon D F Q M
nhypergeom D F Q M
"""
#: Groups that a version of SciPy has no formulas for, by the versions from and before which.
_MISSING = {
    ("1.15.0", "1.17.0"): {"tukeylambda": "ME", "logser": "F"},
    ("1.15.0", "1.16.0"): {"truncnorm": "ME"},
    ("1.18.0", "2.0.0"): {"binom": "E"},
}


def _released() -> dict[str, frozenset[str]]:
    """The methods that have derivatives, by the name of the distribution."""
    missing: dict[str, str] = {}
    for (first, last), names in _MISSING.items():
        if not is_before(first) and is_before(last):
            missing |= names
    found = {}
    for lines, groups in ((_LINES, _GROUPS), (_DISCRETE_LINES, _OF_DISCRETE)):
        for name, *letters in map(str.split, lines.strip().splitlines()):
            kept = [groups[one] for one in letters if one not in missing.get(name, "")]
            found[name] = frozenset(" ".join(kept).split()) | {"support", "rvs"}
    return found


RELEASED = _released()
#: Discrete distributions whose distribution function is the sum of the probabilities.
SUMMED = frozenset(("betabinom", "betanbinom", "hypergeom", "nhypergeom", "zipf"))
#: Shapes where SciPy takes another formula, so that the derivative by them is that of a constant,
#: or nearly so, where it has no digits: the distance from 0 within which it is refused.
ZERO_SHAPES: dict[str, tuple[float, ...]] = {
    "kappa4": (1e-3, 1e-3),
    "genpareto": (1e-5,),
    "genextreme": (1e-3,),
    "tukeylambda": (1e-5,),
    "ncf": (0.0, 0.0, 1e-12),
    "ncx2": (0.0, 1e-12),
    "pearson3": (1e-2,),
    "rice": (1e-12,),
    "triang": (1e-300,),
    "vonmises": (1e-12,),
    "vonmises_line": (1e-12,),
}
#: Distributions of which some formulas have a number for NaN.
ANSWER_NAN = SUMMED | {
    "zipfian",
    *("bernoulli", "binom", "nbinom", "pearson3", "recipinvgauss", "trapezoid"),
    *("triang", "tukeylambda", "uniform"),
}
#: By distributions, a shape from which on SciPy's distribution function is an approximation, of
#: which the density is not the derivative.
APPROXIMATE = {"vonmises": 50.0, "vonmises_line": 50.0}
#: Reasons why a method has no derivative, by distribution or by method.
REFUSED = {
    "fit": "it searches for parameters; minimize the negative log likelihood, with its gradient",
    "expect": "it is a quadrature of a function",
    "others": "SciPy computes it by compiled code, by a quadrature or by a search",
}
