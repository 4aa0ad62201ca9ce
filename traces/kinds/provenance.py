"""Where does a trace come from?

Plain data, empty where unknown. Leaves out the recordings themselves (`traces.kinds.acceptance`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

POLICY_KEY = "policy_draft_tokens"
"""Key of `Provenance.extra`: draft tokens of the steps that were recorded, where no other steps can
be replayed."""

TREE_KEY = "draft_tree"
"""Key of `Provenance.extra`: rank paths of the static tree that every recorded step drafted, root
excluded."""


REPEATS_KEY = "repeats"
"""Key of `Provenance.extra`: what every run of the same prompts counted, this one among them."""


LICENCE_KEY = "licence"
"""Key of `Provenance.extra`: licence of a recording that others published."""


BLOCK_TOKENS_KEY = "block_tokens"
"""Key of `Provenance.extra` of a request trace: tokens of one prefix block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Where a trace comes from. Empty text means unknown.

    Attributes:
        model: target model.
        drafter: draft model or drafting mechanism.
        method: slug of the decoding method.
        device: what the recording ran on.
        dtype: number format of the target's weights.
        sampling: sampling settings, e.g. ``{"temperature": 0.8}``.
        dataset: name of the prompts.
        dataset_sha256: digest of the prompts.
        recorder_version: program and version that wrote the recording.
        notes: what a reader must know before trusting a number.
        extra: further JSON values, such as the share of outputs that loop.
    """

    model: str = ""
    drafter: str = ""
    method: str = ""
    device: str = ""
    dtype: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    dataset: str = ""
    dataset_sha256: str = ""
    recorder_version: str = ""
    notes: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
