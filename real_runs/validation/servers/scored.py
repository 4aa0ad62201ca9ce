"""How far off was what was predicted of a server's runs?

The faster half of a work's runs, as a calibration counts them, beside predictions of the same
steps, as points of the schema that every validation has, with the time to the first token, the time
per token and what prompts took. Where acceptance is drawn each run is work of its own: its
prediction has as many steps and draft tokens, and the faster half is that beside its predictions.
Leaves out running (`launches`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

from costmodel.answers.estimate import prefill_s
from costmodel.answers.steps.setting import Setting
from real_runs.validation.cells import ValidationCell
from real_runs.validation.rounds import faster_half, undisturbed
from real_runs.validation.runs import Run
from real_runs.validation.score import Point, score_point
from real_runs.validation.servers.configurations import ServerConfiguration
from real_runs.validation.servers.launches import AGAIN, FAILED, Plan
from real_runs.validation.servers.predict import Predict, PredictedGroup
from real_runs.validation.servers.recordings import KnownPrompts

Group = tuple[str, ...]


def scored_points(
    plan: Plan,
    entries: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, ServerConfiguration],
    recorded: KnownPrompts,
    predict: Predict,
    *,
    keep_disturbed: bool,
) -> tuple[list[Point], list[str]]:
    """Points of every configuration of which each group of prompts ran, and what is left out, with
    the reason.

    Args:
        plan: cells with their configurations.
        entries: of the log, failed runs among them.
        chosen: what `optimize` chose, by name of the cell.
        recorded: answers of the plain server.
        predict: what a configuration should take for a group.
        keep_disturbed: score runs that other processes disturbed, too.
    """
    runs = runs_of(entries)
    quiet = runs if keep_disturbed else undisturbed(runs)
    faster = runs if keep_disturbed else faster_half(quiet)
    points, left_out = list[Point](), _failures(entries)
    for cell, every in plan:
        for served in every:
            ran, here = (
                [run for run in some if (run.cell, run.configuration) == (cell.name, served.name)]
                for some in (runs, quiet if served.synthetic else faster)
            )
            if {run.prompts for run in here} != set(cell.groups):
                left_out.append(f"{cell.name}: {served.name}: no undisturbed run of every prompt")
                continue
            if served.synthetic:
                middle = {
                    group: _middle_drawn(served, here, predict, group) for group in cell.groups
                }
                predicted = {group: foretold for group, (_, foretold) in middle.items()}
                here = [run for run, _ in middle.values()]
            else:
                predicted = {group: predict(served, group, ()) for group in cell.groups}
            best = chosen.get(cell.name)
            point = _point(
                cell, served, here, predicted, recorded, len(ran) - sum(run.rounds for run in here)
            )
            points.append(replace(point, chosen=best is not None and best.name == served.name))
    return points, left_out


def runs_of(entries: Sequence[Mapping[str, Any]]) -> list[Run]:
    """Every run that a log holds, repeats that are work of their own among them."""
    return [
        Run.from_json({key: value for key, value in entry.items() if key != AGAIN} | dict(repeat))
        for entry in entries
        if FAILED not in entry
        for repeat in ({}, *entry.get(AGAIN, ()))
    ]


def _middle_drawn(
    served: ServerConfiguration, runs: Sequence[Run], predict: Predict, group: Group
) -> tuple[Run, PredictedGroup]:
    """Of the runs of a group the middle one of those that were faster beside what their own draws
    should take.
    """
    own = [(run, predict(served, group, run.counted)) for run in runs if run.prompts == group]
    own.sort(key=lambda pair: pair[0].decode_s / pair[1].run.decode_s)
    run, predicted = own[(len(own) - 1) // 4]
    return replace(run, rounds=len(own)), predicted


def _failures(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Runs that a server failed and that were not made up for since."""
    made = {_place(entry) for entry in entries if FAILED not in entry}
    return [
        f"{entry['cell']}: {entry['configuration']}: round {entry['round']}: {entry[FAILED]}"
        for entry in entries
        if FAILED in entry and _place(entry) not in made
    ]


def _place(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry["cell"], entry["configuration"], tuple(entry["prompts"]), entry["round"]


def _point(
    cell: ValidationCell,
    served: ServerConfiguration,
    runs: Sequence[Run],
    predicted: Mapping[Group, PredictedGroup],
    recorded: KnownPrompts,
    disturbed: int,
) -> Point:
    by_group = {group: [run for run in runs if run.prompts == group] for group in predicted}
    real = not served.synthetic
    point = score_point(
        cell,
        served,
        {
            group: (by_group[group], foretold_group.run)
            for group, foretold_group in predicted.items()
        },
        spread_ratio=fmean(foretold_group.spread_ratio for foretold_group in predicted.values()),
        chosen=False,
        disturbed=disturbed,
        differing=sum(run.output_sha256 != _recorded_sha256(run, recorded) for run in runs)
        if real
        else 0,
    )
    times = ("ttft_s", "tpot_s")
    measured = {
        name: fmean(median(getattr(run, name) for run in own) for own in by_group.values())
        for name in times
    }
    foretold = {
        name: fmean(getattr(foretold_group, name) for foretold_group in predicted.values())
        for name in times
    }
    drafts = {
        "drafted_tokens_per_step": sum(run.drafted_tokens for run in runs)
        / sum(r.request_steps for r in runs)
    }
    return replace(
        point,
        measured={**point.measured, **measured, **drafts},
        predicted={**point.predicted, **foretold},
    )


def _recorded_sha256(run: Run, recorded: KnownPrompts) -> str:
    return hashlib.sha256(
        repr([answer.output for answer in recorded.of(run.prompts).requests]).encode()
    ).hexdigest()


def prompt_times(setting: Setting, recorded: KnownPrompts) -> list[dict[str, float]]:
    """What computing every prompt took, alone and with nothing cached, beside what was predicted.

    Args:
        setting: of plain decoding.
        recorded: with the times of prompts.
    """
    return [
        {
            "tokens": len(prompt),
            "measured_s": recorded.prompt_s[name],
            "predicted_s": float(prefill_s(setting, prompt_tokens=len(prompt))),
        }
        for name, prompt in recorded.prompts.items()
    ]
