"""Operations of the user's: `elementwise`, `custom_vjp`, and how functions are read."""
