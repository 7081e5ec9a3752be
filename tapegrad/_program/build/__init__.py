"""Steps made an executable: assembly, sums, numbers in place of small arrays."""
