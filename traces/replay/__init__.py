"""What a configuration would have emitted along a recording."""
