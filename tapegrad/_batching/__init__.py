"""Functions of one element converted to functions of a batch: vmap."""
