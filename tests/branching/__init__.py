"""Functions with branches and loops, as users write them, and what they are called with."""

from . import dynamics, language, likelihoods, solvers, tables

CASES = [case for m in (likelihoods, dynamics, solvers, tables, language) for case in m.CASES]
