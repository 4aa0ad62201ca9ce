"""The answer of `optimize --search full`: a joint search, its finalists simulated and compared."""
