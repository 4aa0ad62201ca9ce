"""The serving loop: admission, scheduling, drafting and delivery, iteration by iteration."""
