"""Steps that are constants."""

from .step_kinds import BOOL, CONSTANT, FLOAT, INT, declare


def _float(code, number: float) -> str:
    return code.constant(number)


def _word(_code, number: int | bool) -> str:
    return str(number).lower()


#: The constants by the kinds of their values.
CONSTANT_OF = {
    FLOAT: declare("float_const", "-> f", payload=CONSTANT, native=_float),
    INT: declare("int_const", "-> i", payload=CONSTANT, native=_word),
    BOOL: declare("bool_const", "-> b", payload=CONSTANT, native=_word),
}
#: The types of Python of the numbers of each kind.
TYPE_OF: dict[str, type] = {FLOAT: float, INT: int, BOOL: bool}
