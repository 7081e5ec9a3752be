"""What a program is made of: steps, views of slots, and what reads and writes them."""
