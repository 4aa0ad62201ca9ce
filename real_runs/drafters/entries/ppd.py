"""PPD: trained prompt tokens that ride behind every node of the tree."""

from __future__ import annotations

from real_runs.drafters.heads.prompt_tokens import PromptText, PromptTokens
from real_runs.drafters.heads.prompt_tokens_fit import PromptTraining, fit_prompt_tokens
from real_runs.drafters.node_drafters import TrainedHead

PROMPT_TOKENS: TrainedHead[PromptTokens] = TrainedHead(
    method="ppd",
    title="prompt tokens",
    training=PromptTraining(steps=100, learning_rate=1e-2),
    blank=lambda model, options: PromptTokens(model.config.width, count=options.prompt_tokens),
    size=lambda prompts: {"prompt_tokens": prompts.count},
    fit=fit_prompt_tokens,
    levels=lambda prompts: prompts.count,
    text=PromptText,
    drafted_by=lambda prompts: f"{prompts.count} trained prompt tokens",
    notes=lambda prompts: (
        "all candidates of a step follow from the text before its last known token, so a node's"
        f" depend on its depth alone. All {prompts.count} prompt tokens ride behind every node;"
        " trees that save some of them draft less deeply after those nodes."
    ),
)
DRAFTER = PROMPT_TOKENS.drafter()
