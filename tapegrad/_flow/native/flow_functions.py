"""A graph compiled: the functions that run it forwards and back."""

from __future__ import annotations

import functools

from ..._core.codegen.factory import compile_assembly, compile_source
from ..._core.codegen.machine_code import LOADERS, name_address
from ..._core.ops.table import find
from ..ir import frame
from ..ir.flow_graph import Graph
from .adjoints_code import Adjoints
from .assembly_text import Module
from .tape_plan import TapePlan, Ways, live
from .values_code import WORDS, Values

_HELPER = """
from tapegrad._core.codegen import vector_math as np
def value({inputs}):
    return {value}
"""


def compiled(graph: Graph) -> dict[str, int]:
    """Addresses of `forward`, `ahead` and `reverse`: int64(int64, int64), of a frame and nothing.

    `forward` computes values, `ahead` those and the tape for `reverse`.
    """
    text, helpers = assembly(graph)
    for name in helpers:
        LOADERS[f"tapegrad_value_of_{name}"] = functools.partial(_name_helper, name)
    return compile_assembly(text, ("forward", "ahead", "reverse"))


def assembly(graph: Graph) -> tuple[str, set[str]]:
    """The text for LLVM, and the operations whose functions it calls."""
    ways = Ways(graph)
    plan = TapePlan(graph, ways, live(graph))
    module = Module(graph)
    texts: dict[str, Values | Adjoints] = {
        "forward": Values(graph, ways, module, None),
        "ahead": Values(graph, ways, module, plan),
        "reverse": Adjoints(plan, module),
    }
    lines = [line for name, one in texts.items() for line in one.text(f"{name}_inside")]
    for name in texts:
        lines += _entry(name, graph.flags)
    lines = [*module.declared.values(), *lines, *module.metadata()]
    return "\n".join(lines) + "\n", module.helpers


def _entry(name: str, flags: int) -> list[str]:
    """The function that is called with a frame. A caller that requests no edges gets none."""
    lines = [f"define i64 @{name}(i64 %at, i64 %data) {{", "  %frame = inttoptr i64 %at to ptr"]
    for word, offset in {**WORDS, "asked": frame.COVERED}.items():
        lines.append(f"  %{word}_at = getelementptr i8, ptr %frame, i64 {offset}")
        lines.append(f"  %{word} = load ptr, ptr %{word}_at")
    lines.append(f"  %nowhere = alloca i8, i64 {max(flags, 1)}")
    lines.append("  %none = icmp eq ptr %asked, null")
    lines.append("  %covered = select i1 %none, ptr %nowhere, ptr %asked")
    given = ", ".join(f"ptr %{one}" for one in ("frame", "covered", *WORDS))
    lines.append(f"  %status = call i64 @{name}_inside({given})")
    return [*lines, "  ret i64 %status", "}"]


def _name_helper(name: str) -> None:
    """Let a text call the function of an operation that the C library does not have."""
    op = find(name)
    source = _HELPER.format(inputs=", ".join(op.inputs), value=op.value)
    signature = f"float64({', '.join(['float64'] * len(op.inputs))})"
    name_address(
        f"tapegrad_value_of_{name}",
        compile_source(source, {"value": signature}, fixed=op.is_fixed)["value"],
    )
