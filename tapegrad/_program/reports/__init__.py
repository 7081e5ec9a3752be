"""Reports on programs: `explain` and `draw`."""
