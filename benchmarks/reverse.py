"""What the reverse step of one operation costs."""

from benchmarks import figures


def track_scalar():
    """The reverse step of a product or sum of two scalars."""
    return 1e9 * figures.scalar_costs("tapegrad", 100_000)[1]


def track_array(size):
    """The reverse step of a product or sum of two arrays of `size` numbers."""
    return 1e9 * figures.array_costs(size, 1000)[1]


def track_short_step():
    """A step of eight operations with an index write and its backward pass, one of 30 000."""
    return 1e6 * figures.step_with_a_write(30_000)


def track_gradient_beside_a_parameter():
    """`tg.grad` of 10 000 scalar operations while there is a tensor that requires gradients."""
    return 1e3 * figures.gradient_beside_a_parameter(10_000)


track_short_step.unit = "us"
track_gradient_beside_a_parameter.unit = "ms"
track_scalar.unit = track_array.unit = "ns"
track_array.params = [10, 1000, 10_000]
track_array.param_names = ["size"]
