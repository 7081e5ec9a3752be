"""Bytecode of a function converted to a graph, with facts about its values."""
