"""Functions of one element made functions of a batch: vmap."""
