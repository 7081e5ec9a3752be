"""Names of NumPy that take no recorded values, and the reasons."""

from __future__ import annotations

from .._core.tensor.lost_derivatives import PlainAsked
from .._core.tensor.pytree import none_recorded
from .._core.tensor.trace import lost_derivative
from ._lists import named_like
from ._notes import refuses

#: Name → why it refuses recorded values, and what to use.
REFUSED = {
    "asmatrix": "np.matrix is a subclass of ndarray; use np.atleast_2d and @",
    "bmat": "np.matrix is a subclass of ndarray; use np.block",
    "frombuffer": "it takes the bytes of an object; use np.asarray",
    "frompyfunc": "its results are arrays of objects; use np.vectorize, or a loop",
    "broadcast": "it returns plain numbers; use np.broadcast_arrays",
    "nditer": "it returns views of plain arrays; use np.ndenumerate or indices",
    "nested_iters": "it returns views of plain arrays; use indices",
}


def _refusing(name: str, found):
    """A NumPy function with an error that says why it does not take recorded values."""
    reason = REFUSED[name]

    def function(*args, **kwargs):
        try:
            return found(*args, **kwargs)
        except TypeError as error:
            if not isinstance(error, PlainAsked) and none_recorded((*args, *kwargs.values())):
                raise
            raise lost_derivative(
                f"tapegrad.numpy.{name}: an argument is recorded, so its derivative would be lost: "
                f"{reason}; or t.detach() if no derivative is needed",
                args,
                kwargs,
            ) from None

    return named_like(function, found, note=refuses(reason))


MAKERS = dict.fromkeys(REFUSED, _refusing)
