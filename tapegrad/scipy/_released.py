"""Functions of SciPy whose own Python code computes with recorded values, and has derivatives so.

Each has an expression in `tests/scipy/test_scipy_released.py`. Those that iterate until a result is
close are not among them, since the derivative would be that of their steps.
"""

from __future__ import annotations

import importlib

from .._core.tensor.trace import DerivativeLost
from ._tested_code import check_text

_BY_MODULE = {
    "fft": "fftfreq rfftfreq",
    "integrate": "fixed_quad",
    "signal": "closest_STFT_dual_window czt_points gausspulse invres invresz kaiser_atten "
    "kaiser_beta sweep_poly",
    "signal.windows": "exponential gaussian general_gaussian",
    "sparse.linalg": "matrix_power",
    "special": "sinc softplus",
    "stats.contingency": "crosstab margins",
}
#: By name below `scipy`; older versions of SciPy lack some of them.
RELEASED = [f"{module}.{name}" for module, names in _BY_MODULE.items() for name in names.split()]


def _by_its_own_code(name: str):
    module, _, own = name.rpartition(".")

    def function(*args, **kwargs):
        theirs = getattr(importlib.import_module(f"scipy.{module}"), own)
        check_text(theirs, with_called=True)
        try:
            return theirs(*args, **kwargs)
        except DerivativeLost as error:
            if not any(map(callable, args)):  # else it may be the caller's function that lost it
                error.args = (
                    f"tapegrad.scipy.{name} has no derivative to an argument that is recorded: "
                    "SciPy's code makes a plain number or array of it; compute it with functions "
                    "of tapegrad, or give x.detach().numpy() if no derivative is needed",
                )
            raise

    function.is_element_wise = module == "special"  # type: ignore[attr-defined]
    return function


def functions() -> dict:
    """These functions by name."""
    return {name: _by_its_own_code(name) for name in RELEASED}
