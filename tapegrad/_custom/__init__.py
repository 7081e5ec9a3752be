"""Custom operations: `elementwise`, `custom_vjp`, and the reading of their functions."""
