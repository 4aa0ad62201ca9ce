"""Several sequences or steps per answer: search, samples, routing."""
