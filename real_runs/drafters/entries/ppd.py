"""PPD: trained prompt tokens that ride behind every node of the tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from real_runs.drafters.drafter import RecordedDrafter
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.heads.prompt_tokens import PROMPT_TOKENS, PromptText, PromptTokens
from real_runs.drafters.heads.prompt_tokens_fit import PromptTraining, fit_prompt_tokens
from real_runs.drafters.node_drafters import trained_drafter
from real_runs.drafters.observed import by_depth_drafter
from real_runs.models.llama import Llama

TRAINING = PromptTraining(steps=100, learning_rate=1e-2)


def observed_prompt_tokens(
    model: Llama,
    prompts: PromptTokens,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """What the prompt tokens would have drafted."""
    return by_depth_drafter(
        PromptText(model, prompts),
        limits,
        prompts.count,
        title=f"{prompts.count} trained prompt tokens",
        parameters=parameters,
        notes=(
            "all candidates of a step follow from the text before its last known token, so a"
            f" node's depend on its depth alone. All {prompts.count} prompt tokens ride behind"
            " every node; trees that save some of them draft less deeply after those nodes."
        ),
    )


def trained_prompt_tokens(
    store: HeadStore, training: PromptTraining = TRAINING, *, count: int = PROMPT_TOKENS
) -> tuple[PromptTokens, dict[str, Any]]:
    """The prompt tokens and the parameters that tell them from others."""
    return store.trained(
        PromptTokens(store.model.config.width, count=count),
        "prompt-tokens",
        training,
        fit_prompt_tokens,
        shape={"prompt_tokens": count},
        options={"count": count},
        title="prompt tokens",
    )


DRAFTER = trained_drafter(
    method="ppd",
    trained=lambda target: trained_prompt_tokens(target.heads, count=target.options.prompt_tokens),
    observed=observed_prompt_tokens,
)
