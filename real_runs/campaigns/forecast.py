"""What will a campaign take, before anything runs: time, the size of its results, and weights?

Time is what the jobs of a file state. Sizes of recordings follow from what is kept per output
position, as shipped recordings hold it, and bound what tables take that are small beside them.
Leaves out running (`campaign`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hardware_profiles.errors import InputError
from real_runs.campaigns.campaign import LEAST_RESUMABLE_S, RESERVE_S
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.jobs import AnyJob, Job, MaskedJob, ModelJob, RecordJob
from real_runs.models.loading.weights import find_model

Fits = Literal["yes", "in part", "no"]
# Bytes that traces/recorded takes: level-3/*--greedy with and without their trees of 16 nodes, the
# usual recordings, confidence/*; of a timed step, the columns of one in a recording here.
_FILE_BYTES = 12_000  # of a trace with nothing in it but its header, requests and columns
_LENGTH_BYTES = 1.1  # of an output position, whatever is recorded
_CANDIDATE_BYTES = 7.1  # of a candidate with both models' probabilities
_NODE_BYTES = 2.5  # of a node of a draft tree
_STEP_BYTES = 16.0
_MASKED_BYTES = {"none": 28_000, "prefix": 8_800, "dual": 5_600}  # of a prompt under six policies
_TABLE_BYTES = 100_000  # rows of one job that times shapes or runs
_FILLED = 0.7  # of their limit, answers to the shipped prompts: 5322 tokens of 48 answers of 160
_TOKENS_PER_STEP = 1.5  # ASSUMED, of a draft
_TREES_OF_LENGTHS = ("rest",)  # drafters without probabilities that keep trees nevertheless


@dataclass(frozen=True, kw_only=True, slots=True)
class JobForecast:
    """What one job should take.

    Attributes:
        name: of the job.
        what: what it does, in words.
        seconds: as the file states, or what is left of the budget.
        bytes: of its results.
        fits: whether the budget has room for it after those before it; of a job that a later call
            goes on with, "in part".
    """

    name: str
    what: str
    seconds: float
    bytes: int
    fits: Fits


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What a campaign should take.

    Attributes:
        title: of the campaign.
        jobs: in the order they are tried.
        budget_s: wall time for everything.
        weights: name and bytes of every file that must lie on the machine.
        missing: models that are not there, in words.
        weights_limit_bytes: that can be carried at once; None: none is stated.
    """

    title: str
    jobs: tuple[JobForecast, ...]
    budget_s: float
    weights: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]
    weights_limit_bytes: int | None

    @property
    def seconds(self) -> float:
        """Of the jobs that begin."""
        return sum(job.seconds for job in self.jobs if job.fits != "no")

    @property
    def bytes(self) -> int:
        """Of the results of the jobs that end."""
        return sum(job.bytes for job in self.jobs if job.fits == "yes")

    @property
    def weights_bytes(self) -> int:
        """Of all weights."""
        return sum(size for _, size in self.weights)

    @property
    def sentences(self) -> list[str]:
        """The forecast in words, what does not fit included."""
        said = [
            f"about {self.seconds / 60:.0f} of {self.budget_s / 60:.0f} minutes, results of"
            f" {_mib(self.bytes)}, weights of {_mib(self.weights_bytes)}"
        ]
        late = [
            f"{job.name} (in part)" if job.fits == "in part" else job.name
            for job in self.jobs
            if job.fits != "yes"
        ]
        if late:
            said.append(f"left for --resume: {', '.join(late)}")
        limit = self.weights_limit_bytes
        if limit is not None and self.weights_bytes > limit:
            parts = math.ceil(self.weights_bytes / limit)
            said.append(
                f"weights beyond the {_mib(limit)} that can be carried at once to a machine"
                f" without a network: carry {parts} parts (`split --bytes {limit} FILE`, joined"
                " there by `cat` for --model), which leaves the model whole"
            )
        return [*said, *self.missing]


def _mib(size: float) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def forecast(
    campaign: Campaign,
    *,
    budget_s: float | None = None,
    fits: Path | None = None,
    done: Sequence[str] = (),
) -> Forecast:
    """What the jobs of a campaign should take that are not done yet.

    Args:
        campaign: its jobs.
        budget_s: wall time for everything; None: as the campaign states.
        fits: folder of fitted drafters that is carried along.
        done: names of jobs that an earlier call finished.

    Raises:
        InputError: a job's prompts cannot be read.
    """
    budget = campaign.budget_s if budget_s is None else budget_s
    left = budget - RESERVE_S
    jobs = []
    for job in campaign.by_priority():
        if job.name in done:
            continue
        room: Fits = "no"
        if job.estimate_s <= left:
            room = "yes"
        elif job.resumable and left >= LEAST_RESUMABLE_S:
            room = "in part"
        seconds = min(job.estimate_s, left) if room == "in part" else job.estimate_s
        left -= seconds if room != "no" else 0.0
        jobs.append(
            JobForecast(
                name=job.name,
                what=_words(job),
                seconds=seconds,
                bytes=_result_bytes(job),
                fits=room,
            )
        )
    weights, missing = _weights(campaign.jobs, fits)
    return Forecast(
        title=campaign.title,
        jobs=tuple(jobs),
        budget_s=budget,
        weights=tuple(weights.items()),
        missing=missing,
        weights_limit_bytes=campaign.weights_limit_bytes,
    )


def _words(job: AnyJob) -> str:
    if isinstance(job, MaskedJob):
        return f"confidences of a masked model on {job.requests} prompts"
    if not isinstance(job, RecordJob):
        return str(job.kind)
    modes = ", ".join("greedy" if at == 0 else f"temperature {at:g}" for at in job.temperatures)
    timed = "" if job.timed is None else ", steps timed"
    return f"{', '.join(job.drafters)}: level {job.level or 2}, {modes}{timed}"


def _result_bytes(job: Job) -> int:
    if isinstance(job, MaskedJob):
        return job.requests * sum(_MASKED_BYTES[cache] for cache in job.caches)
    return round(_recording_bytes(job)) if isinstance(job, RecordJob) else _TABLE_BYTES


def _recording_bytes(job: RecordJob) -> float:
    """Of all traces of a recording."""
    # they load torch, which a campaign without recordings does not need here
    from real_runs.drafters.registry import load_drafter
    from real_runs.prompt_set import read_prompts

    prompts, options = read_prompts(job.prompts), job.drafter_options
    if job.prompts_per_kind is not None:
        prompts = prompts.first_of_each_kind(job.prompts_per_kind)
    positions = len(prompts.prompts) * job.max_new_tokens * _FILLED
    total = 0.0
    for name in job.drafters:
        drafter, kept = load_drafter(name), _LENGTH_BYTES
        if drafter.records == "probabilities" and job.level == 3:
            kept += _CANDIDATE_BYTES * options.get("candidates", 8)
        if drafter.records == "probabilities" or name in _TREES_OF_LENGTHS:
            kept += _NODE_BYTES * options.get("expansion_nodes", 0)
        total += _FILE_BYTES + positions * kept
        if job.timed is not None and drafter.propose is not None:
            timing = job.timed
            chosen = prompts
            if timing.prompts_per_kind is not None:
                chosen = prompts.first_of_each_kind(timing.prompts_per_kind)
            steps = len(chosen.prompts) * job.max_new_tokens * _FILLED
            shapes = len(timing.chains) + len(timing.tree_nodes) * (drafter.records != "lengths")
            per_batch = steps * (1.0 + shapes / _TOKENS_PER_STEP) * _STEP_BYTES
            batches = len(timing.batches) if drafter.serves_batches else 1
            total += per_batch * batches
    return total * len(job.temperatures)


def _weights(jobs: Sequence[Job], fits: Path | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """Files of models and fitted drafters with their bytes, and what is missing."""
    weights, missing = dict[str, int](), dict[str, None]()
    for name in dict.fromkeys(job.model_file for job in jobs if isinstance(job, ModelJob)):
        try:
            source = find_model(name)
        except InputError as error:
            missing[f"no model for its jobs: {error.message}"] = None
            continue
        files = sorted(source.path.glob("*.safetensors")) if source.path.is_dir() else [source.path]
        weights |= {path.name: path.stat().st_size for path in files}
    if fits is not None and fits.is_dir():
        weights |= {path.name: path.stat().st_size for path in sorted(fits.glob("*.safetensors"))}
    return weights, tuple(missing)
