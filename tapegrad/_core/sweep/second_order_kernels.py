"""Kernels of element-wise operations for tangents, and for adjoints with their tangents.

Both are `kernel(n, arguments)` over contiguous blocks, as those in `kernels`.
"""

from ..ops.elementwise_text import ElementwiseText
from ..ops.symbolic import Partials, partials_of
from ..ops.table import Pointwise, product
from .kernels import HEAD, VIEW, KernelLoop, indented, split_masks


def tangent_source(op: Pointwise, masks: int, width: int) -> str:
    """Text of the kernel that computes the tangent of the output from those of a set of inputs.

    The arguments are the addresses of the inputs, the output, its tangent, and the tangents of the
    inputs. A tangent of exactly 0 gives 0, and so does a partial derivative of 0.
    """
    mask, uniform, _ = split_masks(op, masks)
    count, block = len(op.inputs), KernelLoop()
    wanted = [j for j in op.sloping if mask >> j & 1]
    read = op.read_by(wanted)
    names = [(n, j, uniform >> j & 1) for j, n in enumerate((*op.inputs, "out")) if n in read]
    names += [(f"t{j}", count + 2 + j, uniform >> j & 1) for j in wanted]
    tangent = ElementwiseText(op, block.body.append).tangent({j: f"t{j}" for j in wanted})
    block.give("target", tangent, once=0, fresh=1)
    return _text(block, names, [("target", count + 1)], width)


def second_order_source(op: Pointwise, masks: int, width: int) -> str:
    """Text of the kernel of both seeds, for a set of inputs (see `split_masks`).

    The arguments are the addresses of the inputs, the output, its adjoint g and the adjoints of the
    inputs; the tangent h of its adjoint and those of the inputs' adjoints; the tangents of the
    inputs. Operands are never written, but adjoints of two inputs may overlap.
    """
    partials = _partials(op)
    mask, uniform, fresh = split_masks(op, masks)
    count, block = len(op.inputs), KernelLoop()
    wanted = [j for j in op.sloping if mask >> j & 1]
    curved = _curved(partials, mask)
    results = [partials.partials[j] for j in wanted]
    results += [partials.second[k][j] for k in curved for j in wanted]
    read = partials.read(*results)
    names = [(n, j, uniform >> j & 1) for j, n in enumerate((*op.inputs, "out")) if n in read]
    names += [("g", count + 1, 0), ("h", 2 * count + 2, 0)]
    names += [(f"t{k}", 3 * count + 3 + k, uniform >> k & 1) for k in curved]
    block.body += [f"w{k} = select(t{k} == 0.0, 0.0, g * t{k})" for k in curved]
    ElementwiseText(partials, block.body.append).expressions(*results)
    targets = []
    for j in wanted:
        more = [_times(f"w{k}", partials.second[k][j], partials) for k in curved]
        first, second = [_times(name, partials.partials[j], partials) for name in ("g", "h")]
        second = " + ".join([second, *filter(None, more)])
        for name, place, part in ((f"u{j}", 2 + j, first), (f"v{j}", count + 3 + j, second)):
            targets.append((name, count + place))
            block.give(name, part, uniform >> j & 1, fresh >> j & 1)
    return _text(block, names, targets, width)


def _text(block: KernelLoop, names, targets: list[tuple[str, int]], width: int) -> str:
    """Text of a kernel whose loop is in a function of the memory that it reads, and of the
    addresses of its targets."""
    for name, _, once in names:
        block.load(name, once)
    parameters = [f"{name}_all" for name, *_ in names] + [f"{name}_at" for name, _ in targets]
    given = [f"{VIEW[width]}(at[{place}])" for _, place, _ in names]
    given += [f"at[{place}]" for _, place in targets]
    head = [f"{name}_all = {VIEW[width]}({name}_at)" for name, _ in targets]
    return HEAD + "\n".join(
        [
            "from tapegrad._core.codegen.intrinsics import helper, inside, unaliased",
            "@helper",
            f"def loop(elements, {', '.join(parameters)}):",
            *indented(["inside()", "unaliased()", *head, *block.lines()]),
            "def kernel(elements, arguments):",
            "    at = i64s(arguments)",
            f"    loop(elements, {', '.join(given)})\n",
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


def used_word(op: Pointwise) -> int:
    """Bits of the values that the kernel of both seeds reads: inputs in order, then the output."""
    partials = _partials(op)
    read = partials.read(*partials.partials, *[q for row in partials.second for q in row])
    return sum(1 << j for j, name in enumerate((*op.inputs, "out")) if name in read)
