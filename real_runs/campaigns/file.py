"""How is a campaign file read and checked?

A YAML file of jobs, each a kind with its parameters (`jobs`), a priority and an estimate of its
time, checked before anything runs. Leaves out running them (`campaign`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.refusals import refusal
from real_runs.campaigns.jobs import AnyJob, Job
from real_runs.campaigns.shapes import Closed

MAX_CAMPAIGN_BYTES = 1 << 20


class Campaign(Closed):
    """A list of jobs for one device.

    Attributes:
        schema_version: 1; the key is `schema`.
        title: what it is for.
        device: torch device.
        threads: CPU threads; None: one.
        budget_s: wall time for everything, where none is stated.
        weights_limit_bytes: of the model and what was fitted to it, that are carried to the
            machine at once; None: they are not carried.
        memory_limit_bytes: what operands of one shape may take; None: a share of what is free.
        jobs: with unique names.
    """

    schema_version: Literal[1] = Field(alias="schema")
    title: str = Field(default="", max_length=500)
    device: str = Field(default="cpu", max_length=40)
    threads: int | None = Field(default=None, ge=1, le=1024)
    budget_s: float = Field(default=540.0, gt=0, le=86400)
    weights_limit_bytes: int | None = Field(default=None, ge=1)
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
    """Of everything that a job's rows depend on: its parameters and the campaign's device
    settings.
    """
    apart = {"jobs", "title", "budget_s", "weights_limit_bytes"}
    settings = campaign.model_dump(exclude=apart) | {"job": job.identity()}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def read_campaign(path: str | Path) -> Campaign:
    """Read and check a campaign file.

    Raises:
        InputError: absent, too large, no YAML, or with unknown keys or values out of range.
    """
    try:
        content = yaml.safe_load(read_bounded(path, MAX_CAMPAIGN_BYTES))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"must be YAML ({str(error).splitlines()[0]})", file=path) from None
    try:
        return Campaign.model_validate(content)
    except ValidationError as error:
        raise refusal(error, Campaign, path) from None
