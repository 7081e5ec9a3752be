"""Functions read from their bytecode: right as called, or refused."""

import pytest
from assumed import needs
from language import FUNCTIONS
from read_graphs import check

from tapegrad._flow.reading import reader
from tapegrad._flow.reading.forms import Refused

RIGHT = """
    loop branches while_with_break early_return swap closure generator comprehension stack
    table comprehensions_beside_variables kept_by_comprehensions dictionary instance
    built_in slices integers none_until_found chained
    one_list_two_names ranges_again makers_apart list_while_written view_written
    negative_indices shadowed truths_counted augmented added_lists deleted list_in_a_tuple
    any_all matrix largest int_filled generator_twice
""".split()
#: Right or refused; which of them may change.
RIGHT_OR_REFUSED = """
    walrus list_in_a_list older_list_kept late_binding late_default makers mutable_default
    two_generators shared_iterator items_while_written reversed_while_written
    array_while_written overflow truths_added rounded sum_of_axis iterator_twice
    zipped_iterator_goes_on kept_closure_of_loop kept_range_iterator spread
""".split()
#: Right for vectors of one length only.
FIXED = frozenset(("slices", "matrix", "generator"))


@needs("numba-reader")
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "any"])
@pytest.mark.parametrize("name", RIGHT)
def test_read_and_right(name, exact):
    if exact or name not in FIXED:
        check(FUNCTIONS[name], exact)


@pytest.mark.parametrize("name", RIGHT_OR_REFUSED)
def test_right_or_refused(name):
    try:
        check(FUNCTIONS[name], may_leave=True)
    except Refused:
        return


@needs("numba-reader")
def test_reading_has_an_end(monkeypatch):
    monkeypatch.setattr(reader, "FOLLOWED", 10)
    with pytest.raises(Refused, match="too many paths"):
        check(FUNCTIONS["branches"])
