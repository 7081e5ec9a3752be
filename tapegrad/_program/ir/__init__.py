"""Parts of programs: steps, views of slots, and their reads and writes."""
