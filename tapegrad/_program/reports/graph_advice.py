"""What would avoid that a function has no graph, or that a call leaves its graph."""

from __future__ import annotations

import re

_RAISES = "the function itself raises an exception there"
#: Patterns of reasons, the first that is found counts, and what to write instead.
_ADVICE = {
    r"mark_try_block|never returns": "put try statements around the call of the function",
    r"raises|out of bounds|empty|negative length": _RAISES,
    r"a division by 0": "numbers of NumPy's and tensors may be divided by 0, Python's floats raise",
    r"math\.\w+ may raise": "the function of that name in NumPy gives an infinity or NaN instead",
    r"power that Python may refuse": "np.power gives NaN where Python's ** gives a complex number",
    r"beyond 63 bits": "integers that grow so large are exact as Python's numbers only; use floats",
    r"may be an int|an int on one way": "write 0.0 rather than 0 where a float may come instead",
    r"a norm of 0": "np.sqrt(x @ x + tiny) has a derivative at 0",
    r"value is None|compared with None": "set the variable to a number on each branch before",
    r"more memory|has no end": "a loop makes too many rounds for a program",
    r"the result is .* on one way": "return results of one kind and one length from each branch",
    r"a variable is .* and .* (on another|there)": "give the variable one kind on each branch: "
    "floats rather than ints or None, arrays and lists of one length",
    r"made on one way alone|made anew": "make the list or object once, before the loop or branch",
    r"is an argument$|is an argument \(": "change a copy of it: list(x), dict(x), x.copy()",
    r"attribute \w+ of an object from outside": "pass it as an argument, or compile a method of "
    "the object, whose attributes are inputs",
    r"from outside": "pass it as an argument, as float64 numbers and arrays in C order",
    r"an argument (has|is)": "pass floats, arrays of float64, int64 or bool, and plain tuples, "
    "lists and dicts of them",
    r"bytecode that is not known": "put with statements around the call of the function",
    r"calls itself|nest too deeply": "write the recursion as a loop",
    r"it yields|a generator": "return a list instead of yielding items",
    r"key that is computed|keys are computed": "use a list or an array with a computed index",
    r"too many ways": "use fewer branches in one function, or np.where",
    r"step is computed|with a step": "use a step that is written as a number",
    r"float\(\) of": "leave float() out: it would drop the derivative",
    r"of (integers|truths|two truths)": "convert them first, with astype(float) or 1.0 *",
    r"call with \*\*|takes \*\*": "name the arguments",
    r"intermediate value twice": "assign it on a line of its own",
    r"it calls": "call it before, and pass what it gives as an argument; functions of NumPy that "
    "graphs have are listed in docs/programs.md",
    r"please report": "",
}
_OTHERS = "np.where, np.maximum or np.clip compute both branches in one program"


def advice(reason: str) -> str:
    """What would avoid a reason to refuse a graph, or to leave it; "" where nothing is known."""
    return next((text for pattern, text in _ADVICE.items() if re.search(pattern, reason)), _OTHERS)
