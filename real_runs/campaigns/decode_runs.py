"""How fast does decoding a real request get with a drafter, and without?

Plain decoding and every configuration in turn on every prompt, several rounds, one request at a
time. A run is stored the moment it is finished, so that a job that is killed goes on where it
stopped. Leaves out what the runs add up to (`decode_summary`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hardware_profiles.errors import InputError
from real_runs.campaigns.decode_table import PLAIN, DecodeRun, DecodeTable
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.jobs import DecodeJob
from real_runs.campaigns.shapes import CampaignConfiguration
from real_runs.decoding.dynamic_tree import DynamicPolicy, speculate_dynamic
from real_runs.decoding.generate import generate
from real_runs.decoding.sampled import speculate_sampled
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun, speculate
from real_runs.decoding.tree_speculative import speculate_tree
from real_runs.decoding.verifiers import verifier_named
from real_runs.drafters.drafter import LoopDrafter
from real_runs.drafters.registry import loop_drafter
from real_runs.drafters.target import Target
from real_runs.models.device import checked_device, device_title
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.prompt_set import Prompt, PromptSet, prompt_set, read_prompts
from real_runs.recording.log import RecordingLog

RECORDER = "rooftree-decode 1"
_WARM_TOKENS = 6
_PHASES = ("draft", "verify", "rest")


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
    drafters = {
        configuration.drafter: loop_drafter(configuration.drafter, target)
        for configuration in job.configurations
    }
    for configuration in job.configurations:
        _check_shape(configuration, drafters[configuration.drafter])
    with RecordingLog(folder / "runs.part.jsonl", setup, resume=True) as log:
        missing = _make_missing(target, job, drafters, log, deadline, should_stop)
        runs = sorted(
            (DecodeRun(**entry) for entry in log.finished),
            key=lambda r: (r.round, r.prompt, r.order),
        )
    about = {
        **setup,
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return DecodeReport(table=DecodeTable(runs=tuple(runs), provenance=about), missing=missing)


def _make_missing(
    target: Target,
    job: DecodeJob,
    drafters: dict[str, LoopDrafter],
    log: RecordingLog,
    deadline: float,
    should_stop: Callable[[], bool],
) -> int:
    """Make the runs that the log does not hold yet, in their order; how many are still missing."""
    finished = {(entry["round"], entry["prompt"], entry["configuration"]) for entry in log.finished}
    wanted = [
        place
        for place in _order(job, target.prompts)
        if (place[0], place[1].id, place[2]) not in finished
    ]
    longest_s = max((entry["wall_s"] for entry in log.finished), default=0.0)
    by_name = {configuration.name: configuration for configuration in job.configurations}
    if wanted and not should_stop():
        _warm_up(target, job, drafters)
    for done, (turn, prompt, name, place) in enumerate(wanted):
        if should_stop() or time.monotonic() + longest_s > deadline:
            return len(wanted) - done
        run = _run(target, job, by_name.get(name), drafters, prompt)
        log.append({**run, "job": job.name, "round": turn, "order": place})
        longest_s = max(longest_s, run["wall_s"])
    return 0


def _order(job: DecodeJob, prompts: PromptSet) -> list[tuple[int, Prompt, str, int]]:
    """Every run as (round, prompt, configuration, place); rounds start at different
    configurations.
    """
    names = [PLAIN, *(configuration.name for configuration in job.configurations)]
    return [
        (turn, prompt, names[(place + turn + number) % len(names)], place)
        for turn in range(job.rounds)
        for number, prompt in enumerate(prompts.prompts)
        for place in range(len(names))
    ]


def _run(
    target: Target,
    job: DecodeJob,
    configuration: CampaignConfiguration | None,
    drafters: dict[str, LoopDrafter],
    prompt: Prompt,
) -> dict[str, Any]:
    """One request under one configuration, None for plain; JSON values of `DecodeRun`."""
    ids = target.tokenizer.chat_ids(prompt.text)
    sampler = Sampler(
        temperature=job.temperature,
        seed=job.seed,
        request=prompt.id,
        positions=job.max_new_tokens + 1,
    )
    wall, cpu = _now(target.model.device)
    if configuration is None:
        plain = generate(target.model, ids, sampler, max_new_tokens=job.max_new_tokens)
        measured: dict[str, Any] = {"configuration": PLAIN, "steps": len(plain.tokens) - 1}
        tokens, ended, after_first_s = plain.tokens, plain.ended, plain.seconds["decode_wall_s"]
        measured["verify_s"] = after_first_s
    else:
        run = _speculated(target, job, configuration, drafters[configuration.drafter], ids, sampler)
        tokens, ended, after_first_s = (
            run.tokens,
            run.ended,
            sum(step.total_s for step in run.times),
        )
        measured = {
            "configuration": configuration.name,
            "drafter": configuration.drafter,
            "draft_tokens": configuration.most_draft_tokens,
            "steps": len(run.emitted),
            "drafted_tokens": sum(run.drafted),
            **{
                f"{phase}_s": sum(getattr(step, f"{phase}_s") for step in run.times)
                for phase in _PHASES
            },
        }
    end_wall, end_cpu = _now(target.model.device)
    return {
        **measured,
        "prompt": prompt.id,
        "kind": prompt.kind,
        "prompt_tokens": len(ids),
        "tokens": len(tokens),
        "ended": ended,
        "output_sha256": hashlib.sha256(" ".join(map(str, tokens)).encode()).hexdigest(),
        "wall_s": end_wall - wall,
        "cpu_s": end_cpu - cpu,
        "prefill_s": end_wall - wall - after_first_s,
    }


def _speculated(
    target: Target,
    job: DecodeJob,
    configuration: CampaignConfiguration,
    source: LoopDrafter,
    ids: list[int],
    sampler: Sampler,
) -> SpeculativeRun:
    model, most = target.model, job.max_new_tokens
    if configuration.dynamic_tree is not None:
        assert source.reader is not None
        policy = DynamicPolicy(**configuration.dynamic_tree.model_dump())
        return speculate_dynamic(
            model, ids, source.reader(), sampler, policy=policy, max_new_tokens=most, timed=True
        )
    if configuration.verifier is not None:
        assert source.reader is not None
        return speculate_sampled(
            model,
            ids,
            source.reader(),
            verifier=configuration.verifier,
            tree=configuration.static_tree,
            temperature=job.temperature,
            draft_temperature=configuration.draft_temperature,
            generator=np.random.default_rng([job.seed, *ids]),
            max_new_tokens=most,
            timed=True,
        )
    if configuration.tree is not None:
        assert source.tree is not None
        propose = source.tree()
        return speculate_tree(
            model,
            ids,
            propose,
            sampler,
            tree=configuration.static_tree,
            max_new_tokens=most,
            learn=getattr(propose, "learn", None),
            timed=True,
        )
    assert source.chain is not None and configuration.draft_tokens is not None
    return speculate(
        model,
        ids,
        source.chain(),
        sampler,
        draft_tokens=configuration.draft_tokens,
        max_new_tokens=most,
        timed=True,
    )


def _now(device: torch.device) -> tuple[float, float]:
    """Wall and process clocks, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter(), time.process_time()


def _warm_up(target: Target, job: DecodeJob, drafters: dict[str, LoopDrafter]) -> None:
    """A few tokens with every configuration, so that first calls are in no run."""
    short = job.model_copy(update={"max_new_tokens": min(_WARM_TOKENS, job.max_new_tokens)})
    for configuration in (None, *job.configurations):
        _run(target, short, configuration, drafters, target.prompts.prompts[0])


def _check_shape(configuration: CampaignConfiguration, source: LoopDrafter) -> None:
    rule = ""
    if configuration.dynamic_tree is not None or configuration.verifier is not None:
        if configuration.verifier is not None:
            verifier_named(configuration.verifier)
        if source.reader is None:
            rule = "runs no network, so that its drafts have no probabilities"
    elif configuration.tree is not None and source.tree is None:
        rule = "drafts chains alone"
    elif configuration.tree is None and source.chain is None:
        rule = "drafts trees alone"
    if rule:
        raise InputError(rule, key=configuration.name, value=configuration.drafter)


def _target(job: DecodeJob, campaign: Campaign, folder: Path) -> tuple[Target, dict[str, Any]]:
    """The model with its prompts, and all that the runs depend on."""
    place = checked_device(campaign.device)
    torch.set_num_threads(campaign.threads or 1)
    prompts = _prompts(job)
    source = find_model(job.model_file)
    weights = load_weights(source)
    options = job.record_options(folder, device=campaign.device, threads=campaign.threads or 1)
    target = Target(
        model=Llama(weights, device=place, dtype=getattr(torch, options.dtype)),
        tokenizer=Tokenizer(source.path),
        sha256=weights.sha256,
        options=options,
        prompts=prompts,
        folder=folder,
    )
    setup = {
        "recorder": RECORDER,
        "model": source.title,
        "model_file": source.path.name,
        "model_sha256": weights.sha256,
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
