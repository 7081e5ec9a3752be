"""The kinds of steps of graphs: each is declared once, with all that is known of it."""
