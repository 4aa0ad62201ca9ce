"""What does an engine add to a step beside the passes: scheduling, sampling on the host, draft
set-up?

Leaves out anything that a pass's own operations already bill.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """Seconds that an engine adds to a step.

    Args:
        engine: engine the numbers belong to.
        versions: versions they were seen on.
        step_s: added to every step, speculative or not.
        draft_s: added to a step that runs a drafter, whatever its length.
        request_s: added per request that the step serves, however many tokens it has there.
        accepted_s: added per accepted draft token, which is sampled and sent beside the one that
            every step gives.
        verify_ratio: added to a speculative step as a share of its verify pass (host lookups).
        spread_ratio: half-width of the 80 % interval of these numbers.
        source: where they come from.
    """

    engine: str
    versions: str
    step_s: float
    draft_s: float = 0.0
    request_s: float = 0.0
    accepted_s: float = 0.0
    verify_ratio: float = 0.0
    spread_ratio: float = 0.3
    source: str


BARE = Overhead(
    engine="none", versions="", step_s=0.0, spread_ratio=0.0, source="no engine: passes alone"
)
