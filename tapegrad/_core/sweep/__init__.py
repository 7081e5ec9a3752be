"""Floor 2: the interpreter. Compiled code that appends rows and sweeps over them."""
