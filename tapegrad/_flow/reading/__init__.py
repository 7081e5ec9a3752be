"""A function's bytecode followed with what is known of its values: a graph comes out."""
