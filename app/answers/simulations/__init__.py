"""Which simulations answer a question of loads, limits and policies, as rows."""
