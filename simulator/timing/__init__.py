"""How long an iteration takes: from the cost model or from measured profiles."""
