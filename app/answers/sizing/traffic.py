"""Which requests do simulations of a deployment serve?"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.answers.workload import Limits

OPEN_REQUESTS = 240  # of a replica where a rate is stated
LEAST_BEYOND = 20  # requests beyond a percentile, which it is then known from


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """The requests that deployments are simulated with.

    Args:
        requests: recorded ones; None: drawn.
        count: of recorded ones that are simulated.
        prompt_tokens: law of the prompt's tokens.
        output_tokens: law of the output's tokens.
    """

    requests: Path | None
    count: int = OPEN_REQUESTS
    prompt_tokens: str
    output_tokens: str

    @property
    def lengths(self) -> dict[str, Any]:
        """Where lengths come from, by keys of a scenario's requests."""
        if self.requests is not None:
            return {"file": str(self.requests)}
        return {"prompt_tokens": self.prompt_tokens, "output_tokens": self.output_tokens}


def open_requests(slo: Limits) -> int:
    """Requests of a simulation at a stated rate; of a percentile enough lie beyond it."""
    if slo.highest_percentile is None:
        return OPEN_REQUESTS
    return max(OPEN_REQUESTS, math.ceil(LEAST_BEYOND / (1.0 - slo.highest_percentile / 100.0)))
