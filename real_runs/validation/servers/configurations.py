"""Which configurations does a server run, and by which names do points call them?

A configuration is what the product's own type says (`DecodingConfiguration`) with slots and the
length of a context, so that it is exported and priced as every other one. Leaves out where it runs
(`plan`) and its export (`app`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from costmodel.configuration import DecodingConfiguration
from real_runs.trials.trials import PLAIN

NGRAM, DRAFT = "n-gram", "speculative-decoding"
NGRAM_FORMS = tuple((n, k) for n in (1, 2, 3, 4) for k in (1, 2, 3, 4, 5, 6, 8, 12, 16) if k >= n)
DRAFT_TOKENS = (1, 2, 3, 4, 6, 8)
SYNTHETIC_TOKENS = (1, 2, 4, 8, 16)
SYNTHETIC_DRAFTS = (2, 6)  # of a draft model
SYNTHETIC_ACCEPTANCE = (0.5, 0.8)  # of each token, given those before it


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfiguration:
    """One way to start a server.

    Attributes:
        chosen: what runs.
        synthetic: tokens are accepted by drawn rates, those of `chosen.acceptance_by_depth`.
    """

    chosen: DecodingConfiguration
    synthetic: bool = False

    @property
    def drafter(self) -> str:
        """The method, and whether acceptance is synthetic; "" for plain decoding."""
        if not self.chosen.speculates:
            return ""
        return f"{self.chosen.method}, synthetic" if self.synthetic else self.chosen.method

    @property
    def draft_tokens(self) -> int:
        """Most draft tokens K of a step."""
        return self.chosen.draft_tokens

    @property
    def topology(self) -> str:
        """Off or chain."""
        return self.chosen.topology

    @property
    def name(self) -> str:
        """Unique among the configurations of a number of slots, readable, the same in every run."""
        if not self.drafter:
            return PLAIN
        called = (
            f"{NGRAM}-n{self.chosen.ngram_max}"
            if self.chosen.method == NGRAM
            else self.chosen.method
        )
        rates = self.chosen.acceptance_by_depth
        drawn = f"-synthetic{rates[0]:g}" if self.synthetic and rates else ""
        return f"{called}-k{self.draft_tokens}{drawn}"


def plain(base: DecodingConfiguration) -> ServerConfiguration:
    """Plain decoding where a question asks."""
    return ServerConfiguration(
        chosen=replace(base, method="plain-decoding", draft_tokens=0, draft_model=None)
    )


def looked_up(base: DecodingConfiguration, size: int, draft_tokens: int) -> ServerConfiguration:
    """Lookup of n-grams of one length; llama.cpp drafts nothing where K is shorter than that."""
    return ServerConfiguration(
        chosen=replace(
            base,
            method=NGRAM,
            ngram_min=size,
            ngram_max=size,
            draft_tokens=draft_tokens,
            draft_model=None,
        )
    )


def drafted(base: DecodingConfiguration, draft_tokens: int) -> ServerConfiguration:
    """Drafts of the model that the question names."""
    return ServerConfiguration(chosen=replace(base, method=DRAFT, draft_tokens=draft_tokens))


def synthetic(chain: ServerConfiguration, acceptance: float) -> ServerConfiguration:
    """The same with drawn acceptance.

    Args:
        chain: what drafts.
        acceptance: of each token, given that those before it were accepted, 0..1.
    """
    rates = tuple(acceptance**depth for depth in range(1, chain.draft_tokens + 1))
    return ServerConfiguration(
        chosen=replace(chain.chosen, acceptance_by_depth=rates), synthetic=True
    )
