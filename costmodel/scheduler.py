"""How does an engine fill its iterations?

One record, under the names that scenarios write: engines state their published defaults in it
(`costmodel.engines`), a search varies it, the simulator runs it, exporters write it. Leaves out the
cache, the front end and the limits of a service (`simulator.loop.options`).
"""

from dataclasses import dataclass, replace

from hardware_profiles.errors import InputError

_AT_LEAST = {
    "token_budget": 1,
    "max_requests": 1,
    "receive_iterations": 1,
    "wait_iterations": 0,
    "pass_tokens": 0,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduler:
    """How a scheduler admits waiting requests and fills its iterations; where nothing is stated, as
    an engine is taken to do of which nothing is known.

    Args:
        token_budget: most query tokens of an iteration, decoding requests included unless
            `prefill_first`; at least 1.
        max_requests: most requests that hold cache at once, at least 1.
        chunked_prefill: prompts may be split over iterations; False: a prompt runs whole.
        prefill_first: prompts run alone, before anybody decodes; False: they share iterations with
            decodes.
        prefix_cache: blocks of prompts that begin alike are computed once and kept until their room
            is needed.
        overlapped_scheduling: an iteration is composed while the one before it runs; a request that
            arrives meanwhile waits for the next one.
        wait_iterations: prompts wait for so many iterations of requests that decode, or until they
            are enough; at least 0.
        wait_ratio: enough are those that fill, with the tokens that decode, this share of the
            budget, in [0, 1].
        receive_iterations: after so many iterations that only decode the scheduler looks for new
            requests, and after each with prompts; at least 1.
        numbered_slots: requests hold one of `max_requests` numbered slots, which they take before
            the iteration is filled; slots are served in the order of their numbers, and a request
            takes the one that was left first.
        pass_tokens: most query tokens of a pass; an iteration of more is computed in several. 0: in
            one.
        equal_passes: a pass holds equally many tokens of neighbouring slots, because each has a
            cache of its own; False: whoever comes next, as far as there is room.
        drafts_within_output: nobody drafts tokens beyond the end of its output, the last of which
            needs no draft.
        reserve_ratio: admit only what fits with its whole prompt, with what the running requests
            hold and with this share of the tokens that all of them have still to generate, in [0,
            1]; 1: nobody is ever preempted. None: its next tokens are enough, which over-commits
            the cache where prompts come in chunks.

    Raises:
        InputError: a value out of range, or values that do not go together.
    """

    token_budget: int = 8192
    max_requests: int = 256
    chunked_prefill: bool = True
    prefill_first: bool = False
    prefix_cache: bool = False
    overlapped_scheduling: bool = False
    wait_iterations: int = 0
    wait_ratio: float = 1.0
    receive_iterations: int = 1
    numbered_slots: bool = False
    pass_tokens: int = 0
    equal_passes: bool = False
    drafts_within_output: bool = False
    reserve_ratio: float | None = None

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                raise InputError(f"must be >= {least}", key=name, value=getattr(self, name))
        for name in ("wait_ratio", "reserve_ratio"):
            share = getattr(self, name)
            if share is not None and not 0.0 <= share <= 1.0:
                raise InputError("must lie in [0, 1]", key=name, value=share)
        if self.equal_passes and not (self.numbered_slots and self.pass_tokens):
            rule = "passes of equally many tokens need numbered_slots and pass_tokens"
            raise InputError(rule, key="equal_passes", value=self.equal_passes)
        if self.numbered_slots and self.reserve_ratio != 1.0:
            rule = "a slot has room for all of its request: must be 1 with numbered_slots"
            raise InputError(rule, key="reserve_ratio", value=self.reserve_ratio)

    def of_copies(self, copies: int) -> "Scheduler":
        """One scheduler in the place of so many copies in lock step, each with these limits."""
        return replace(
            self,
            token_budget=self.token_budget * copies,
            max_requests=self.max_requests * copies,
        )
