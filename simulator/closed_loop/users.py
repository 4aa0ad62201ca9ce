"""How many users keep an engine busy, and how long are their requests?

A closed loop: every user has one request at a time and sends the next one when it is answered.
Leaves out open-loop arrivals and recorded lengths (`simulator.scenario.arrivals`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from simulator.loop.request import Workload

# Tokenisers of engines take 2.7 to 4.5 us a token of English text (Hugging Face tokenizers 0.23, one
# core of an EPYC server: 2.0 to 2.4, best of 20 prompts of 4096 tokens) and more of random ids, as
# most benchmarks send: o200k 5.8 to 6.0, DeepSeek's 6.9 to 7.5; ASSUMED in between for others.
TEXT_TOKEN_S = 2.4e-6
RANDOM_TOKEN_S = 6.5e-6
_RANDOM_TOKEN_S = {"gpt-oss": 5.9e-6, "deepseek": 7.2e-6}  # by the beginning of a model's name
# NVIDIA's load generators are run with ten requests a user (and two to warm up): ai-dynamo/dynamo
# benchmark scripts, `--request-count $(($concurrency*10)) --warmup-request-count
# $(($concurrency*2))`. The first burst counts.
REQUESTS_PER_USER = 10
MOST_TOKENS = 1 << 18  # of one request
MOST_WORK = 2_000_000_000  # output tokens of a run

Counts = NDArray[np.int32]


def random_token_s(model: str) -> float:
    """Seconds that a front end takes to tokenise a token of random ids.

    Args:
        model: its name.

    >>> random_token_s("gpt-oss-120b") < random_token_s("llama-3.1-8b") < random_token_s("deepseek-v3")
    True
    """
    rates = (rate for name, rate in _RANDOM_TOKEN_S.items() if model.startswith(name))
    return next(rates, RANDOM_TOKEN_S)


@dataclass(frozen=True, kw_only=True, slots=True)
class Users:
    """A closed loop of users whose requests are alike.

    Args:
        users: c, each with one request at a time.
        prompt_tokens: of every request.
        output_tokens: of every request, >= 1.
        requests_per_user: requests a user sends; all users start together, and every request
            counts.
        length_spread: of prompts and outputs, in [0, 1): lengths are drawn evenly between 1 -
            spread of the tokens above and all of them. Equal requests that start together stay
            together; these drift apart.
        tokenise_s: seconds that the engine's front end takes to tokenise a prompt token.
        cold: the first burst meets kernels that no batch has run yet; load generators that warm up
            do not.

    Raises:
        InputError: a number out of its range, or more than can be simulated.
    """

    users: int
    prompt_tokens: int
    output_tokens: int
    requests_per_user: int = REQUESTS_PER_USER
    length_spread: float = 0.0
    tokenise_s: float = TEXT_TOKEN_S
    cold: bool = False

    def __post_init__(self) -> None:
        for key in ("users", "prompt_tokens", "output_tokens", "requests_per_user"):
            if getattr(self, key) < 1:
                raise InputError("must be at least 1", key=key, value=getattr(self, key))
        if not 0.0 <= self.length_spread < 1.0:
            raise InputError("must lie in [0, 1)", key="length_spread", value=self.length_spread)
        if self.context_tokens > MOST_TOKENS:
            rule = f"prompt and output may have {MOST_TOKENS} tokens together"
            raise InputError(rule, key="tokens", value=self.context_tokens)
        if self.requests * self.output_tokens > MOST_WORK:
            raise InputError(f"a run may emit {MOST_WORK} tokens", key="users", value=self.users)

    @property
    def requests(self) -> int:
        """Requests of the run."""
        return self.users * self.requests_per_user

    @property
    def context_tokens(self) -> int:
        """Tokens of a request at its end."""
        return self.prompt_tokens + self.output_tokens

    def lengths(self) -> tuple[Counts, Counts]:
        """Tokens of every prompt and of every output, [requests]; the same ones every time."""
        generator = np.random.default_rng(0)

        def drawn(most: int) -> Counts:
            least = max(1, round(most * (1.0 - self.length_spread)))
            return generator.integers(least, most + 1, size=self.requests).astype(np.int32)

        return drawn(self.prompt_tokens), drawn(self.output_tokens)

    def workload(self) -> Workload:
        """The requests in the order in which they are sent."""
        prompts, outputs = self.lengths()
        return Workload(
            arrival_s=np.zeros(self.requests),
            prompt_tokens=prompts,
            output_tokens=outputs,
            users=self.users,
        )
