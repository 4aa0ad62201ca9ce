"""What runs to propose tokens, as weights and passes."""
