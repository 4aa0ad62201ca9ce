"""What does a campaign file say?

A YAML file of jobs, each a kind with its parameters, a priority and an estimate of its time, checked before
anything runs. Leaves out running them (`campaign`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hardware_profiles.errors import InputError

MAX_CAMPAIGN_BYTES = 1 << 20
Count = Annotated[int, Field(ge=1, le=1 << 40)]
Counts = Annotated[list[Count], Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,60}$")]
Dtype = Literal["fp32", "bf16", "fp16", "fp8"]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Job(_Closed):
    """What every job has.

    Attributes:
        name: unique in its file.
        priority: lower runs first.
        estimate_s: seconds it is expected to take; it is begun only if they are left, and ended some
            time after 1.5 times as long.
        dtype: number format of the operands.
        graph: replay captured graphs where the device can; false launches one by one.
        repeats: most repeats of one measurement.
        budget_s: seconds of one measurement.
        longest_call_s: calls that would take longer are left out.
        kernel_names: look up which kernels ran.
    """

    name: Name
    priority: int = Field(default=10, ge=0, le=1000)
    estimate_s: float = Field(gt=0, le=86400)
    dtype: Dtype = "bf16"
    graph: bool = True
    repeats: int = Field(default=15, ge=3, le=10_000)
    budget_s: float = Field(default=0.05, gt=0, le=600)
    longest_call_s: float = Field(default=1.0, gt=0, le=600)
    kernel_names: bool = True


class AttentionJob(Job):
    """Decode and verify attention over requests, query tokens and context; all forms that run by default."""

    kind: Literal["attention"]
    model: str
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    mask: Literal["causal", "tree"] = "causal"
    requests: Counts
    query_tokens: Counts
    context: Counts
    implementations: Annotated[list[str], Field(min_length=1, max_length=32)] | None = None


class PrefillJob(Job):
    """Attention over chunks behind prefixes; prefix 0 is a whole prompt."""

    kind: Literal["prefill"]
    model: str
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    requests: Counts
    chunk: Counts
    prefix: Annotated[list[Annotated[int, Field(ge=0, le=1 << 24)]], Field(min_length=1, max_length=64)]
    implementations: Annotated[list[str], Field(min_length=1, max_length=32)] | None = None


class GemmJob(Job):
    """Matrix products of `rows` tokens with every weight of each model."""

    kind: Literal["gemm"]
    models: Annotated[list[str], Field(min_length=1, max_length=16)]
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    rows: Counts
    head: bool = True


class MoeJob(Job):
    """Expert layers over `rows` tokens."""

    kind: Literal["moe"]
    model: str
    rows: Counts
    routings: Annotated[list[Literal["balanced", "random"]], Field(min_length=1, max_length=2)] = ["balanced", "random"]


class CopyJob(Job):
    """Copies, reads and writes of buffers of `sizes_bytes`."""

    kind: Literal["copy"]
    sizes_bytes: Counts


class LaunchJob(Job):
    """Chains of so many small kernels."""

    kind: Literal["launch"]
    kernels: Counts


AnyJob = Annotated[AttentionJob | PrefillJob | GemmJob | MoeJob | CopyJob | LaunchJob, Field(discriminator="kind")]


class Campaign(_Closed):
    """A list of jobs for one device.

    Attributes:
        schema_version: 1; the key is `schema`.
        title: what it is for.
        device: torch device.
        threads: CPU threads; None: one.
        memory_limit_bytes: what operands of one shape may take; None: a share of what is free.
        jobs: with unique names.
    """

    schema_version: Literal[1] = Field(alias="schema")
    title: str = Field(default="", max_length=500)
    device: str = Field(default="cpu", max_length=40)
    threads: int | None = Field(default=None, ge=1, le=1024)
    memory_limit_bytes: int | None = Field(default=None, ge=1)
    jobs: Annotated[list[AnyJob], Field(min_length=1, max_length=64)]

    @field_validator("jobs")
    @classmethod
    def _fp8_products_only(cls, jobs: list[Any]) -> list[Any]:
        for job in jobs:
            if job.dtype == "fp8" and job.kind != "gemm":
                raise ValueError(f"fp8 is for gemm jobs only, and {job.name} is of kind {job.kind}")
        return jobs

    @model_validator(mode="after")
    def _unique_names(self) -> Campaign:
        names = [job.name for job in self.jobs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"job names must be unique, {', '.join(twice)} stands twice")
        return self

    def by_priority(self) -> list[Any]:
        """Jobs in the order they are tried; ties in the file's order."""
        return sorted(self.jobs, key=lambda job: job.priority)


def digest(campaign: Campaign, job: Job) -> str:
    """Of everything that a job's rows depend on: its parameters and the campaign's device settings."""
    settings = campaign.model_dump(exclude={"jobs", "title"}) | {
        "job": job.model_dump(exclude={"priority", "estimate_s"})
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def read_campaign(path: str | Path) -> Campaign:
    """Read and check a campaign file.

    Raises:
        InputError: absent, too large, no YAML, or with unknown keys or values out of range.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path) from None
    if len(raw) > MAX_CAMPAIGN_BYTES:
        raise InputError(f"must not exceed {MAX_CAMPAIGN_BYTES} bytes", file=path, value=len(raw))
    try:
        given = yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"must be YAML ({str(error).splitlines()[0]})", file=path) from None
    try:
        return Campaign.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        value = first.get("input")
        shown = value if isinstance(value, str | int | float) else None
        raise InputError(first["msg"], file=path, key=key or None, value=shown) from None
