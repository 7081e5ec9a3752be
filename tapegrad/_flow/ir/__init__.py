"""The graph: blocks of steps on numbers and memory, and what joins them."""
