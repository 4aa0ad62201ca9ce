"""How fast does decoding a real request get with a drafter, and without?

Plain decoding and every configuration in turn on every prompt, several rounds, one request at a
time, as a bench makes runs (`real_runs.trials.make`). Leaves out what the runs add up to
(`decode_summary`).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.campaigns.decode_table import DecodeRun, DecodeTable
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.jobs import DecodeJob
from real_runs.campaigns.shapes import CampaignConfiguration
from real_runs.decoding.batch_speculative import speculate_batch
from real_runs.decoding.dynamic_tree import DynamicPolicy, speculate_dynamic
from real_runs.decoding.generate import generate
from real_runs.decoding.outcomes import speculate_outcomes
from real_runs.decoding.paying_widths import PayingWidths, SureProposer, timed_widths
from real_runs.decoding.sampled import speculate_sampled
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun, speculate
from real_runs.decoding.times import now
from real_runs.decoding.tree_speculative import speculate_tree
from real_runs.decoding.verifiers import verifier_named
from real_runs.drafters.drafter import Form, form_of
from real_runs.drafters.registry import loop_drafter
from real_runs.drafters.target import Target, load_target
from real_runs.models.device import checked_device, device_title
from real_runs.models.loading.weights import find_model
from real_runs.prompt_set import PromptSet, prompt_set, read_prompts
from real_runs.recording.log import RecordingLog
from real_runs.trials.make import make_runs
from real_runs.trials.trials import PLAIN, Plan, PromptCell, Trials

RECORDER = "rooftree-decode 2"
RUNS = "decode.part.jsonl"
_WARM_TOKENS = 6
_PHASES = ("draft", "verify", "rest")
_COLUMNS = {column.name for column in fields(DecodeRun)}


@dataclass(frozen=True, slots=True)
class PlainDecoding:
    """The configuration beside those of a job: decoding without a drafter."""

    name: str = PLAIN


Decoded = PlainDecoding | CampaignConfiguration


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeReport:
    """How far a decode job is.

    Attributes:
        table: the runs that are there.
        missing: runs that the deadline or a stop left out.
    """

    table: DecodeTable
    missing: int


def run_decode(
    job: DecodeJob,
    campaign: Campaign,
    *,
    folder: Path,
    deadline: float,
    should_stop: Callable[[], bool] = lambda: False,
    command: str = "",
) -> DecodeReport:
    """Make every run that is not there yet, until the deadline.

    Args:
        job: model, prompts and configurations.
        campaign: device and threads.
        folder: keeps the runs and what drafters were fitted on.
        deadline: `time.monotonic()` at which to end; no run is begun that would take longer than
            the longest so far.
        should_stop: asked between runs.
        command: for the provenance.

    Raises:
        InputError: no model or prompts there, options that do not fit the model, or runs begun with
            another setup.
        UnknownNameError: no such drafter.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, setup = _target(job, campaign, folder)
    decoder, prompts = RequestDecoder(target, job), target.prompts.prompts
    cell = PromptCell(
        phase="score",
        kind=job.name,
        context=0,
        batch=1,
        prompts=tuple(prompt.id for prompt in prompts),
    )
    trials: Trials[Decoded] = Trials(
        plan=Plan(cells=[(cell, [PlainDecoding(), *job.configurations])]),
        launch=lambda configuration: nullcontext(decoder),
    )
    with RecordingLog(folder / RUNS, setup, resume=True) as log:
        missing = make_runs(
            trials, log, rounds=job.rounds, deadline=deadline, should_stop=should_stop
        )
        runs = _runs_of(log.finished, job.name, {prompt.id: prompt.kind for prompt in prompts})
    about = {
        **setup,
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return DecodeReport(table=DecodeTable(runs=tuple(runs), provenance=about), missing=missing)


def _runs_of(
    entries: Sequence[Mapping[str, Any]], job: str, kinds: Mapping[str, str]
) -> list[DecodeRun]:
    """The runs that a log holds, in the order in which they were to be made."""
    places: dict[tuple[int, str], int] = defaultdict(int)
    runs = []
    for entry in entries:
        (prompt,) = entry["prompts"]
        order = places[entry["round"], prompt]
        places[entry["round"], prompt] += 1
        values = {key: value for key, value in entry.items() if key in _COLUMNS}
        runs.append(DecodeRun(**values, job=job, prompt=prompt, kind=kinds[prompt], order=order))
    return sorted(runs, key=lambda run: (run.round, run.prompt, run.order))


class RequestDecoder:
    """Decodes one request at a time, its prompt with it.

    Args:
        target: the model, its prompts, and what its drafters are made from.
        job: configurations, sampling and lengths.

    Raises:
        InputError: a configuration that its drafter cannot serve, or options that do not fit the
            model.
        UnknownNameError: no such drafter or verifier.
    """

    def __init__(self, target: Target, job: DecodeJob) -> None:
        self._target, self._job = target, job
        self._prompts = {prompt.id: prompt.text for prompt in target.prompts.prompts}
        drafters = {one.drafter: loop_drafter(one.drafter, target) for one in job.configurations}
        for one in job.configurations:
            if one.verifier is not None:
                verifier_named(one.verifier)
        self._proposers = {
            one.name: form_of(drafters[one.drafter], _form(one), key=one.name, name=one.drafter)
            for one in job.configurations
        }
        for one in job.configurations:
            if _form(one) == "batch" and not isinstance(
                self._proposers[one.name]([[0]]), SureProposer
            ):
                rule = "does not say how sure it is of its tokens, which `stop: cost` weighs"
                raise InputError(rule, key=one.name, value=one.drafter)
        self._seconds: dict[str, NDArray[np.float64]] = {}

    def _pass_seconds(
        self, configuration: CampaignConfiguration, context: int
    ) -> NDArray[np.float64]:
        """Seconds of passes over 0, 1, .. K draft tokens, timed at the context of the first prompt."""
        if configuration.name not in self._seconds:
            self._seconds[configuration.name] = timed_widths(
                self._target.model,
                configuration.most_draft_tokens,
                requests=1,
                context=context,
            )
        return self._seconds[configuration.name]

    def warm(self, configuration: Decoded, prompts: Sequence[str]) -> None:
        """Decode a few tokens, so that first calls are in no run."""
        self._decoded(configuration, prompts[0], min(_WARM_TOKENS, self._job.max_new_tokens))

    def probes(self) -> list[float]:
        """None: that a run was disturbed is told by its process time (`decode_summary`)."""
        return []

    def run(self, configuration: Decoded, prompts: Sequence[str]) -> dict[str, Any]:
        """Decode one prompt; JSON values of `DecodeRun` but for its place."""
        (prompt,) = prompts
        return self._decoded(configuration, prompt, self._job.max_new_tokens)

    def _decoded(self, configuration: Decoded, prompt: str, most: int) -> dict[str, Any]:
        model = self._target.model
        ids = self._target.tokenizer.chat_ids(self._prompts[prompt])
        sampler = Sampler(
            temperature=self._job.temperature,
            seed=self._job.seed,
            request=prompt,
            positions=most + 1,
        )
        wall, cpu = now(model.device)
        measured: dict[str, Any]
        if isinstance(configuration, CampaignConfiguration):
            run = self._speculated(configuration, ids, sampler, most)
            tokens, ended, steps = run.tokens, run.ended, len(run.emitted)
            measured = {
                f"{phase}_s": sum(getattr(step, f"{phase}_s") for step in run.times)
                for phase in _PHASES
            }
            after_first_s = sum(step.total_s for step in run.times)
            measured |= {
                "drafter": configuration.drafter,
                "draft_tokens": configuration.most_draft_tokens,
                "drafted_tokens": sum(run.drafted),
            }
        else:
            plain = generate(model, ids, sampler, max_new_tokens=most)
            tokens, ended, steps = plain.tokens, plain.ended, len(plain.tokens) - 1
            after_first_s = plain.seconds["decode_wall_s"]
            measured = {"verify_s": after_first_s}
        end_wall, end_cpu = now(model.device)
        return measured | {
            "prompt_tokens": len(ids),
            "tokens": len(tokens),
            "steps": steps,
            "ended": ended,
            "output_sha256": hashlib.sha256(" ".join(map(str, tokens)).encode()).hexdigest(),
            "wall_s": end_wall - wall,
            "cpu_s": end_cpu - cpu,
            "prefill_s": end_wall - wall - after_first_s,
        }

    def _speculated(
        self, configuration: CampaignConfiguration, ids: list[int], sampler: Sampler, most: int
    ) -> SpeculativeRun:
        model, make = self._target.model, self._proposers[configuration.name]
        propose = make([ids]) if _form(configuration) == "batch" else make()
        if configuration.dynamic_tree is not None:
            policy = DynamicPolicy(**configuration.dynamic_tree.model_dump())
            return speculate_dynamic(
                model, ids, propose, sampler, policy=policy, max_new_tokens=most, timed=True
            )
        if configuration.verifier is not None:
            return speculate_sampled(
                model,
                ids,
                propose,
                verifier=configuration.verifier,
                tree=configuration.static_tree,
                temperature=self._job.temperature,
                draft_temperature=configuration.draft_temperature,
                generator=np.random.default_rng([self._job.seed, *ids]),
                max_new_tokens=most,
                timed=True,
            )
        if configuration.stop == "cost":
            (run,) = speculate_batch(
                model,
                [ids],
                PayingWidths(propose, self._pass_seconds(configuration, len(ids))),
                [sampler],
                tree=configuration.static_tree,
                max_new_tokens=most,
                timed=True,
            )
            return run
        if configuration.fan_out is not None:
            return speculate_outcomes(
                model,
                ids,
                propose,
                sampler,
                draft_tokens=configuration.most_draft_tokens,
                fan_out=configuration.fan_out,
                waits=configuration.on_miss == "wait",
                max_new_tokens=most,
                timed=True,
            ).run
        if configuration.tree is not None:
            tree = configuration.static_tree
            return speculate_tree(
                model, ids, propose, sampler, tree=tree, max_new_tokens=most, timed=True
            )
        assert configuration.draft_tokens is not None
        drafted = configuration.draft_tokens
        return speculate(
            model, ids, propose, sampler, draft_tokens=drafted, max_new_tokens=most, timed=True
        )


def _form(configuration: CampaignConfiguration) -> Form:
    """What of a drafter a configuration runs."""
    if configuration.stop == "cost":
        return "batch"
    reads = (configuration.dynamic_tree, configuration.verifier, configuration.fan_out)
    if any(part is not None for part in reads):
        return "reader"
    return "chain" if configuration.tree is None else "tree"


def _target(job: DecodeJob, campaign: Campaign, folder: Path) -> tuple[Target, dict[str, Any]]:
    """The model with its prompts, and all that the runs depend on."""
    place = checked_device(campaign.device)
    torch.set_num_threads(campaign.threads or 1)
    prompts = _prompts(job)
    source = find_model(job.model_file)
    options = job.record_options(folder, device=campaign.device, threads=campaign.threads or 1)
    target = load_target(source, options, prompts, device=place, folder=folder)
    setup = {
        "recorder": RECORDER,
        "model": source.title,
        "model_file": source.path.name,
        "model_sha256": target.sha256,
        "device": device_title(place),
        "device_type": place.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dataset": prompts.title,
        "dataset_sha256": prompts.sha256,
        "job": job.identity(),
    }
    return target, setup


def _prompts(job: DecodeJob) -> PromptSet:
    prompts = read_prompts(job.prompts)
    if job.kinds is not None:
        unknown = set(job.kinds) - {prompt.kind for prompt in prompts.prompts}
        if unknown:
            raise InputError(
                "there are no prompts of this kind", key="kinds", value=sorted(unknown)[0]
            )
        prompts = prompt_set(
            prompts.title, [prompt for prompt in prompts.prompts if prompt.kind in job.kinds]
        )
    return (
        prompts
        if job.prompts_per_kind is None
        else prompts.first_of_each_kind(job.prompts_per_kind)
    )
