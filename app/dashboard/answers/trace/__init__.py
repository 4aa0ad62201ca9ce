"""The trace lab: one recording, or two beside each other."""
