"""How far are predictions from a server that somebody else runs and restarts?

The server is loaded as it is; what it should be restarted with is named, and the next call, or the
same one that waits, measures that. No process is started, and nothing but the address given is
talked to. Requests are sent together, so that as many decode at a time as users were asked for, and
decoding counts from where all of them decode. Leaves out servers that are started here
(`validate`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from costmodel.answers.estimate import estimate, intervals, prefill_s
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import InputError
from real_runs.prompt_set import Prompt, read_prompts
from real_runs.recording.log import RecordingLog
from real_runs.servers.address import Address
from real_runs.servers.asking import FailedRunError, asked_together
from real_runs.servers.exchange import Patience, UnreachableError
from real_runs.servers.identify import Server, identify
from real_runs.validation.cells import ValidationCell
from real_runs.validation.predict import LoopCosts, PredictedRun
from real_runs.validation.runs import Run
from real_runs.validation.score import Point, regrets, score_point, summary, write_points
from real_runs.validation.servers.configurations import ServerConfiguration
from real_runs.validation.validate import Validation

RECORDER = "rooftree-validate-restarted 1"
_POLL_S = 2.0
_SHORT = Patience(connect_s=2.0, silence_s=10.0)
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartOptions:
    """What a server is asked, and what it should be restarted with.

    Attributes:
        out: folder for runs, files to restart with and the report.
        address: of the server.
        question: model, device, engine and method that predict.
        source: drafter, and where its acceptance is known from.
        users: requests that decode together, ascending.
        draft_tokens: lengths to restart with; the server runs plainly at first.
        max_new_tokens: of every answer.
        rounds: times that every number of users is measured.
        prompts: prompt file; None: the shipped set.
        resume: go on in a folder that holds runs: the server has been restarted with what was
            named.
        seed: of the search and of intervals.
    """

    out: Path
    address: Address
    question: DecodingConfiguration
    source: Source
    users: tuple[int, ...] = (1, 4, 16)
    draft_tokens: tuple[int, ...] = (3, 5)
    max_new_tokens: int = 128
    rounds: int = 3
    prompts: Path | None = None
    resume: bool = False
    seed: int = 0


def validate_restarted(
    options: RestartOptions,
    name_files: Callable[[ServerConfiguration], str],
    *,
    restarted: Callable[[str], bool],
    tell: Tell = lambda text: None,
) -> Validation:
    """Measure what the server runs now, and every next configuration once it has been restarted
    with it.

    Args:
        options: what and how long.
        name_files: writes what starts a configuration, and says where it lies.
        restarted: waits until the server runs what lies there; False ends here, for a later call to
            go on.
        tell: called with what is under way.

    Returns:
        The validation of what has been measured; its points lie in `options.out` as
        `validation.parquet`.

    Raises:
        InputError: not reachable, a folder that holds other runs, or a server that answers nothing
            whole.
    """
    server = identify(options.address, patience=_SHORT)
    contender = _contender(options)
    every = [
        ServerConfiguration(chosen=replace(contender.configuration, draft_tokens=k))
        for k in (0, *options.draft_tokens)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    files = {
        served.name: name_files(served) for served in every[1:]
    }  # says now, not after the runs, what cannot be written
    prompts = read_prompts(options.prompts).prompts
    setup = {
        "recorder": RECORDER,
        "model": server.model,
        "kind": server.kind,
        "users": list(options.users),
        "configurations": [configuration.name for configuration in every],
        "max_new_tokens": options.max_new_tokens,
    }
    left_out = list[str]()
    with RecordingLog(options.out / "runs.part.jsonl", setup, resume=options.resume) as log:
        pending = [
            configuration
            for configuration in every
            if not _is_measured(log, configuration, options)
        ]
        for place, served in enumerate(pending):  # the first of a call is what the server runs
            if place and not restarted(files[served.name]):
                break
            server = identify(options.address, patience=_SHORT)
            left_out += _measure(server, served, prompts, options, log, tell)
        entries = list(log.finished)
    points = [
        _point(contender, served, users, own)
        for served in every
        for users in options.users
        if (
            own := [
                entry
                for entry in entries
                if (entry["configuration"], entry["users"]) == (served.name, users)
            ]
        )
    ]
    if not points:
        raise InputError("no run was whole", key=str(options.address))
    points = _with_choices(points)
    write_points(points, options.out / "validation.parquet")
    missing = options.rounds * len(every) * len(options.users) - len(entries)
    return Validation(
        points=tuple(points),
        regrets=tuple(regrets(points)),
        summary=summary(points),
        costs=LoopCosts(),
        missing=missing,
        left_out=tuple(left_out),
        about=_about(options, server),
    )


def wait_until_back(address: Address, *, pressed: Callable[[], bool], tell: Tell) -> bool:
    """Wait until a server has gone and come back, or until somebody says that it has.

    Args:
        address: of the server.
        pressed: whether somebody says so.
        tell: called with what is waited for.
    """
    gone = False
    while True:
        try:
            identify(address, patience=_SHORT)
            if gone or pressed():
                return True
            tell("waiting for the server to be restarted; press Enter where it has been")
        except (UnreachableError, InputError):
            gone = True
            tell("the server is gone; waiting for it to come back")
        time.sleep(_POLL_S)


def _contender(options: RestartOptions) -> Contender:
    """The drafter in its setting, with the acceptance of every length."""
    recommendation = recommend(
        options.question,
        [options.source],
        batches=list(options.users),
        contexts=[0],
        draft_tokens=options.draft_tokens,
        tree_sizes=(),
        seed=options.seed,
    )
    return recommendation.contenders[0]


def _is_measured(log: RecordingLog, served: ServerConfiguration, options: RestartOptions) -> bool:
    return all(_has(log, served, users, options.rounds) for users in options.users)


def _has(log: RecordingLog, served: ServerConfiguration, users: int, rounds: int) -> bool:
    own = [
        entry
        for entry in log.finished
        if (entry["configuration"], entry["users"]) == (served.name, users)
    ]
    return len(own) >= rounds


def _measure(
    server: Server,
    served: ServerConfiguration,
    prompts: Sequence[Prompt],
    options: RestartOptions,
    log: RecordingLog,
    tell: Tell,
) -> list[str]:
    """All rounds of one configuration; what failed, in words."""
    failed = list[str]()
    for turn in range(options.rounds):
        for users in options.users:
            if _has(log, served, users, turn + 1):
                continue
            tell(f"{served.name}: {users} users, round {turn + 1} of {options.rounds}")
            own = [prompts[(turn * users + place) % len(prompts)] for place in range(users)]
            try:
                made = asked_together(
                    server, [prompt.text for prompt in own], max_tokens=options.max_new_tokens
                )
            except FailedRunError as error:
                failed.append(f"{served.name}: {users} users: {error}")
                continue
            place = {
                "cell": "",
                "configuration": served.name,
                "prompts": ["together"],
                "round": turn,
            }
            log.append({**made, **place, "probe_s": 0.0, "users": users})
    return failed


def _point(
    contender: Contender,
    served: ServerConfiguration,
    users: int,
    entries: Sequence[Mapping[str, Any]],
) -> Point:
    """Predicted beside measured at one number of users; prompts are as long as the server
    counted.
    """
    runs = [
        Run.from_json({key: value for key, value in entry.items() if key != "users"})
        for entry in entries
    ]
    prompt = fmean(run.prompt_tokens for run in runs)
    tokens = median(run.tokens for run in runs)
    acceptance = next(
        candidate
        for candidate in contender.candidates
        if candidate.draft_tokens == served.draft_tokens
    )
    estimated = estimate(
        contender.setting, acceptance, batch=users, context=prompt + tokens / users / 2.0
    )
    spread = intervals(
        contender.setting, estimated, batch=users, generator=np.random.default_rng(0)
    ).tokens_per_s
    steps = tokens / users / acceptance.tokens_per_step
    draft_s, verify_s, step_s = (
        float(seconds)
        for seconds in (estimated.step.draft_s, estimated.step.verify_s, estimated.step_s)
    )
    predicted = PredictedRun(
        tokens=round(tokens),
        steps=steps,
        request_steps=steps * users,
        draft_s=steps * draft_s,
        verify_s=steps * verify_s,
        rest_s=steps * (step_s - draft_s - verify_s),
    )
    cell = ValidationCell(
        phase="score", kind="as sent", context=0, batch=users, prompts=("together",)
    )
    point = score_point(
        cell,
        served,
        {("together",): (runs, predicted)},
        spread_ratio=math.sqrt(float(spread[1].item()) / float(spread[0].item())) - 1.0,
        chosen=False,
        disturbed=0,
        differing=0,
    )
    measured = {name: median(getattr(run, name) for run in runs) for name in ("ttft_s", "tpot_s")}
    times = {
        "ttft_s": float(prefill_s(contender.setting, prompt_tokens=prompt, batch=users)),
        "tpot_s": step_s / acceptance.tokens_per_step,
    }
    return replace(
        point, measured={**point.measured, **measured}, predicted={**point.predicted, **times}
    )


def _with_choices(points: Sequence[Point]) -> list[Point]:
    """The points, the fastest prediction at every number of users marked as the choice."""
    best: dict[int, Point] = {}
    for point in points:
        fastest = best.get(point.batch)
        if fastest is None or point.predicted["tokens_per_s"] > fastest.predicted["tokens_per_s"]:
            best[point.batch] = point
    return [replace(point, chosen=best[point.batch] is point) for point in points]


def _about(options: RestartOptions, server: Server) -> dict[str, Any]:
    names = options.question.deployment
    return {
        "engine": names.engine,
        "served": server.kind,
        "model": names.model,
        "device": names.device,
        "threads": "",
        "profile": Path(names.device).stem,
        "fidelity": names.fidelity,
        "rounds": options.rounds,
        "seed": options.seed,
        "max_new_tokens": options.max_new_tokens,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "acceptance": options.source.label,
    }
