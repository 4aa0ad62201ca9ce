"""Trees drafted from features of the target."""
