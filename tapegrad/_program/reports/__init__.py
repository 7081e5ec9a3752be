"""What a program says of itself: `explain` and `draw`."""
