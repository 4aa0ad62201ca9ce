"""What did every request of a recording count, where its positions were not kept?

Names of the columns that a trace of level 0 holds per request, beside the pooled counts of its
summary (`traces.kinds.summary`). What follows from them is `traces.replay.counted`.
"""

STEPS = "steps"
"""Column: decoding steps of the request."""
NEW_TOKENS = "new_tokens"
"""Column: tokens that these steps emitted."""
WALL_S = "wall_s"
"""Column: seconds that they took, by the clock."""
