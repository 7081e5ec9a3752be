"""Functions of many kinds read from their bytecode: right as called, or refused, never wrong."""

import pytest
from assumed import needs
from language import FUNCTIONS
from read_graphs import check, read_for_vectors

from tapegrad._flow.reading.forms import Refused

pytestmark = needs("numba-reader")


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "any"])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith("try_")])
@pytest.mark.filterwarnings("ignore")
def test_right_or_refused(name, exact):
    f = FUNCTIONS[name]
    try:
        read_for_vectors(f, exact)
    except Refused:
        assert name in REFUSED
        return
    assert name not in REFUSED
    check(f, exact, may_leave=name in LEFT)


REFUSED = frozenset(
    """
    try_at try_cls try_cmpnone try_del try_deque try_deque2 try_dictnum
    try_enumiter try_eq try_fstr try_gen2 try_invb try_invb2 try_lol
    try_loopdef try_maskarr try_negb try_objloop try_objs try_rec
    try_set try_set_ try_shift try_slot try_star try_super try_try try_try2
    """.split()
)
LEFT = frozenset("try_bigloop try_raise try_maxtie".split())
