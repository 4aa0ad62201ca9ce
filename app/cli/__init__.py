"""The `rooftree` command line."""
