"""Kernels of element-wise operations for tangents, and for adjoints with their tangents.

Both are `kernel(n, arguments)` over contiguous blocks, as those in `kernels`.
"""

from ..codegen.factory import compile_source
from ..ops.partial_products import product
from ..ops.second_partials import Partials, partials_of
from ..ops.slopes import shorter
from ..ops.table import Pointwise, words_of
from .kernels import HEAD, VIEW, split_masks


def tangent_source(op: Pointwise, masks: int, width: int) -> str:
    """Text of the kernel that computes the tangent of the output from those of a set of inputs.

    The arguments are the addresses of the inputs, the output, its tangent, and the tangents of the
    inputs. A tangent of exactly 0 gives 0, and so does a partial derivative of 0.
    """
    mask, uniform, _ = split_masks(op, masks)
    count = len(op.inputs)
    wanted = [j for j in range(count) if mask >> j & 1 and op.partials[j] != "0.0"]
    partials = [op.partials[j] for j in wanted]
    steps = op.needed(*partials)
    read = words_of(*partials, *[text for _, text in steps])
    names = [(n, j, uniform >> j & 1) for j, n in enumerate((*op.inputs, "out")) if n in read]
    names += [(f"t{j}", count + 2 + j, uniform >> j & 1) for j in wanted]
    head, loads = _loads(names)
    body = [f"{name} = {text}" for name, text in steps]
    parts = []
    for j, partial in zip(wanted, partials, strict=True):
        part = {"1.0": f"t{j}", "-1.0": f"-t{j}"}.get(partial)
        if part is None:
            body.append(f"p{j} = {partial}")
            part = f"select((t{j} == 0.0) | (p{j} == 0.0), 0.0, t{j} * p{j})"
        parts.append(part)
    places = [(f"{name}_all", f"{VIEW[width]}(at[{place}])") for name, place, _ in names]
    places.append(("target_at", f"at[{count + 1}]"))
    head.append(f"target = {VIEW[width]}(target_at)")
    body.append(f"target[i] = {' + '.join(parts)}")
    return _text(places, head, _loops(loads, body), [])


def second_order_source(op: Pointwise, masks: int, width: int) -> str:
    """Text of the kernel of both seeds, for a set of inputs (see `split_masks`).

    The arguments are the addresses of the inputs, the output, its adjoint g and the adjoints of the
    inputs; the tangent h of its adjoint and those of the inputs' adjoints; the tangents of the
    inputs. Operands are never written, but adjoints of two inputs may overlap.
    """
    partials = _partials(op)
    mask, uniform, fresh = split_masks(op, masks)
    count = len(op.inputs)
    wanted = [j for j in range(count) if mask >> j & 1 and op.partials[j] != "0.0"]
    curved = _curved(partials, mask)
    results = [partials.first[j] for j in wanted]
    results += [partials.second[k][j] for k in curved for j in wanted]
    read = partials.read(*results)
    names = [(n, j, uniform >> j & 1) for j, n in enumerate((*op.inputs, "out")) if n in read]
    names += [("g", count + 1, 0), ("h", 2 * count + 2, 0)]
    names += [(f"t{k}", 3 * count + 3 + k, uniform >> k & 1) for k in curved]
    head, loads = _loads(names)
    body = [f"w{k} = select(t{k} == 0.0, 0.0, g * t{k})" for k in curved]
    body += [f"{name} = {text}" for name, text in partials.needed(*results)]
    tail: list[str] = []
    places = [(f"{name}_all", f"{VIEW[width]}(at[{place}])") for name, place, _ in names]
    for j in wanted:
        more = [_times(f"w{k}", partials.second[k][j], partials) for k in curved]
        first, second = [_times(name, partials.first[j], partials) for name in ("g", "h")]
        second = " + ".join([second, *filter(None, more)])
        for name, place, part in ((f"u{j}", 2 + j, first), (f"v{j}", count + 3 + j, second)):
            places.append((f"{name}_at", f"at[{count + place}]"))
            head.append(f"{name} = {VIEW[width]}({name}_at)")
            if uniform >> j & 1:
                head.append(f"{name}_sum = 0.0")
                body.append(f"{name}_sum = sum_of({name}_sum, {part})")
                tail.append(f"{name}[0] = {name}_sum")
            else:
                body.append(f"{name}[i] {'' if fresh >> j & 1 else '+'}= {part}")
    return _text(places, head, _loops(loads, body), tail)


def _loops(loads: list[str], body: list[str]) -> list[str]:
    """Lines of the loop over a block, with shorter expressions where all its elements allow them.

    Each line of `body` assigns to one name.
    """
    short, tests = [], []
    for line in body:
        target, sign, text = line.partition("= ")
        text, test = shorter(text)
        short.append(target + sign + text)
        tests += [f"select({test}, 0.0, 1.0)"] if test else []
    if not tests:
        return _loop([*loads, *body])
    once = " + ".join(dict.fromkeys(tests))
    return [
        "far = 0.0",
        *_loop([*loads, *_read_by(once, body), f"far = sum_of(far, {once})"]),
        "if far == 0.0:",
        *["    " + line for line in _loop([*loads, *short])],
        "else:",
        *["    " + line for line in _loop([*loads, *body])],
    ]


def _read_by(text: str, body: list[str]) -> list[str]:
    """The lines that make what a text reads."""
    wanted, found = words_of(text), []
    for line in reversed(body):
        name, _, made = line.partition(" = ")
        if name in wanted:
            found.append(line)
            wanted |= words_of(made)
    return found[::-1]


def _loop(lines: list[str]) -> list[str]:
    return ["for i in range(elements):", *["    " + line for line in lines]]


def _text(places, head, loops, tail) -> str:
    """Text of a kernel whose loops are in a function of the names that are given with places."""
    return HEAD + "\n".join(
        [
            "from tapegrad._core.codegen.intrinsics import helper, inside, unaliased",
            "@helper",
            f"def loop(elements, {', '.join(name for name, _ in places)}):",
            "    inside()",
            "    unaliased()",
            *["    " + line for line in (*head, *loops, *tail)],
            "def kernel(elements, arguments):",
            "    at = i64s(arguments)",
            f"    loop(elements, {', '.join(text for _, text in places)})\n",
        ]
    )


def _partials(op: Pointwise) -> Partials:
    found = partials_of(op)
    if found is None:
        raise AssertionError(f"{op.name} has no second partial derivatives")
    return found


def _curved(partials: Partials, mask: int) -> list[int]:
    """The inputs of a set whose partial derivative is not the same for all values of the set."""
    count = len(partials.inputs)
    active = [j for j in range(count) if mask >> j & 1]
    return [k for k in active if any(partials.second[k][j] != "0.0" for j in active)]


def _times(factor: str, partial: str, partials: Partials) -> str:
    """Text of a product, where a factor of exactly 0 gives 0; empty for a partial of 0."""
    return "" if partial == "0.0" else product(factor, partials.selection(partial))


def _loads(names) -> tuple[list[str], list[str]]:
    """Statements before and in a loop that name the elements of blocks.

    An element is (name, place, whether it is the same all through the block).
    """
    head = [f"{name} = {name}_all[0]" for name, _, one in names if one]
    return head, [f"{name} = {name}_all[i]" for name, _, one in names if not one]


def used_word(op: Pointwise) -> int:
    """Bits of the values that the kernel of both seeds reads: inputs in order, then the output."""
    partials = _partials(op)
    read = partials.read(*partials.first, *[q for row in partials.second for q in row])
    return sum(1 << j for j, name in enumerate((*op.inputs, "out")) if name in read)


def compile_tangent(op: Pointwise, masks: int, width: int) -> int:
    """Address of the kernel of tangents."""
    text = tangent_source(op, masks, width)
    return compile_source(text, {"kernel": "void(int64, int64)"}, fixed=op.is_fixed)["kernel"]


def compile_second_order(op: Pointwise, masks: int, width: int) -> int:
    """Address of the kernel of both seeds."""
    text = second_order_source(op, masks, width)
    return compile_source(text, {"kernel": "void(int64, int64)"}, fixed=op.is_fixed)["kernel"]
