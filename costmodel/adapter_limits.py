"""How many adapters may there be, and of which rank? Questions and prices have the same bounds."""

MOST_ADAPTERS = 10_000
MOST_RANK = 1024
