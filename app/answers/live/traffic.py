"""What does `load` send: how many requests of which lengths, with which prompts and options?

Leaves out sending them (`real_runs.servers.load`).
"""

from collections.abc import Mapping
from json import loads
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from app.questions.groups import REQUEST_OPTIONS
from app.questions.spelled_options import named_by_option
from hardware_profiles.errors import InputError
from hardware_profiles.refusals import refusal
from real_runs.prompt_set import read_prompts
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import Server
from real_runs.servers.passages import passages, token_ids
from simulator.loop.request import Workload
from simulator.scenario.arriving import workload
from simulator.scenario.file import Requests
from simulator.scenario.schema import assignments, with_values
from simulator.scenario.usual_requests import with_usual_requests
from traces.importers.formats import read_requests_any


def request_count(count: int | None, rate: float | None, duration_s: float | None) -> int | None:
    """Requests of so many seconds at a rate, where those are stated; else as many as are asked for.

    Args:
        count: of requests; None: not stated.
        rate: requests per second; None: no drawn arrivals.
        duration_s: how long; None: not stated.

    Raises:
        InputError: a duration without a rate or beside a count.
    """
    if duration_s is None:
        return count
    if rate is None or count is not None:
        raise InputError("goes with --rate, in place of --count", key="--duration")
    return max(1, round(rate * duration_s))


def request_options(texts: list[str] | None) -> dict[str, Any]:
    """Further keys of every request's JSON, from texts such as cache_prompt=false.

    Raises:
        InputError: another form.
    """
    options: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        try:
            options[key] = loads(value)
        except ValueError:
            equals = ""
        if not (key and equals):
            raise InputError(
                "must be KEY=JSON, such as cache_prompt=false", key="--option", value=text
            )
    return options


def drawn_workload(
    named: Mapping[str, Any], assigned: list[str] | None, prompts: Path | None, seed: int
) -> tuple[Workload, str]:
    """The requests, drawn as `simulate` draws them, and what was assumed of them.

    Args:
        named: values of options by key of a scenario; None: not stated.
        assigned: texts of `--set`.
        prompts: file whose prompts are sent as they are; None: lengths are exact.
        seed: of all draws.

    Raises:
        InputError: numbers that make no sense, or a file that cannot be read.
    """
    values = {key: value for key, value in named.items() if value is not None}
    stated = assignments(assigned or ())
    if wrong := next((key for key in stated if not key.startswith("requests.")), None):
        raise InputError(
            "must be a key of requests: this server is no simulated one", key="--set", value=wrong
        )
    if prompts is not None:  # sent as they are, so that only the server counts their tokens
        values = {
            "requests.count": len(read_prompts(prompts).prompts),
            **values,
            "requests.prompt_tokens": 1,
        }
    sections, assumed = with_usual_requests(with_values({}, values | stated))
    try:
        requests = Requests.model_validate(sections["requests"])
    except ValidationError as error:
        refused = refusal(error, Requests)
        key = f"requests.{refused.key}" if refused.key else "requests"
        refused = InputError(refused.message, key=key, value=refused.value)
        raise named_by_option(refused, REQUEST_OPTIONS, values.keys()) from None
    source = None if requests.file is None else read_requests_any(requests.file, requests.format)
    return workload(requests, source, np.random.default_rng(seed)), assumed


def prompts_of(
    server: Server,
    requests: Workload,
    prompts: Path | None,
    seed: int,
    patience: Patience,
    *,
    whole: bool,
) -> tuple[list[Any], str]:
    """A prompt for every request, and what must be known about them.

    Args:
        server: whose tokenizer takes the text apart.
        requests: lengths and shared blocks.
        prompts: file of prompts; None: the shipped ones.
        seed: of the places where passages begin.
        patience: of the server.
        whole: prompts are sent as they are written.

    Raises:
        InputError: a file that cannot be read, or a server that is lost.
    """
    written = read_prompts(prompts)
    if whole:
        texts = [prompt.text for prompt in written.prompts]
        return [texts[index % len(texts)] for index in range(requests.requests)], ""
    tokens = token_ids(server, written, patience=patience)
    note = (
        ""
        if tokens is not None
        else (
            "the server has no /tokenize: prompts are plain token ids at random, whose acceptance"
            " says nothing about text"
        )
    )
    return list(passages(requests, tokens, seed)), note
