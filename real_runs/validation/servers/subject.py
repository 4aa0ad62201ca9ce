"""What is peculiar to llama.cpp's server, started with exported flags beside predictions?

Every round starts one server per number of slots and configuration, in an order drawn anew, and
runs all cells of that many slots in it: a start costs a second. The faster half of a work's runs
counts, as a calibration counts them. Where acceptance is drawn each run is work of its own: its
prediction has as many steps and draft tokens, and the faster half is that beside its predictions.
Leaves out recording, choosing (`validate`) and measuring (`launches`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from costmodel.answers.estimate import prefill_s
from costmodel.answers.steps.setting import Setting
from real_runs.trials.trials import Place, Plan, PromptCell
from real_runs.validation.predict import Prediction
from real_runs.validation.rounds import faster_half, undisturbed
from real_runs.validation.runs import Run
from real_runs.validation.score import Groups
from real_runs.validation.servers.configurations import ServerConfiguration
from real_runs.validation.servers.launches import ServerLaunches
from real_runs.validation.servers.predict import Predict
from real_runs.validation.servers.recordings import KnownPrompts
from real_runs.validation.subject import Predictor, Subject, grouped

Group = tuple[str, ...]


def started_servers(
    plan: Plan[ServerConfiguration],
    servers: ServerLaunches,
    recorded: KnownPrompts,
    predict: Predict,
    *,
    setup: Mapping[str, Any],
    about: Mapping[str, Any],
    keep_disturbed: bool = False,
) -> Subject[ServerConfiguration]:
    """Servers that are started for their runs, as a bench runs them.

    Args:
        plan: cells and configurations.
        servers: what they are started with.
        recorded: answers of a plain server.
        predict: what a configuration should take for prompts that are sent together.
        setup: what runs depend on.
        about: provenance.
        keep_disturbed: runs that other processes disturbed count, too.
    """

    def differs(served: ServerConfiguration, run: Run) -> bool:
        outputs = [answer.output for answer in recorded.of(run.prompts).requests]
        digest = hashlib.sha256(repr(outputs).encode()).hexdigest()
        return not served.synthetic and run.output_sha256 != digest

    return Subject(
        plan=plan,
        setup=setup,
        about=about,
        launch=servers.launch,
        counted=partial(_counted, plan, keep_disturbed),
        predictor=lambda counted: Predictor(predict=partial(_predicted, predict)),
        order=start_order,
        differs=differs,
    )


def start_order(
    plan: Plan[ServerConfiguration], rounds: int
) -> list[list[Place[ServerConfiguration]]]:
    """A start per round, number of slots and configuration."""
    ordered = list[list[Place[ServerConfiguration]]]()
    for turn in range(rounds):
        starts: dict[tuple[int, str], list[Place[ServerConfiguration]]] = {}
        for cell, configurations in plan.cells:
            for served in configurations:
                starts.setdefault((cell.batch, served.name), []).extend(
                    Place(cell=cell, configuration=served, group=group, round=turn)
                    for group in cell.groups
                )
        # slow minutes of a shared machine must not fall on one number of slots, or on one way to
        # draft
        ordered += random.Random(turn).sample(list(starts.values()), len(starts))
    return ordered


def _counted(
    plan: Plan[ServerConfiguration], keep_disturbed: bool, runs: Sequence[Run]
) -> list[Run]:
    """The faster half of a work's runs; where each drew an acceptance, all of them."""
    if keep_disturbed:
        return list(runs)
    quiet = undisturbed(runs)
    drawn = {(cell.name, served.name) for cell, served in plan.scored if served.synthetic}
    works = [run for run in quiet if (run.cell, run.configuration) not in drawn]
    draws = [run for run in quiet if (run.cell, run.configuration) in drawn]
    return faster_half(works) + draws


def _predicted(
    predict: Predict, cell: PromptCell, served: ServerConfiguration, runs: Sequence[Run]
) -> Groups:
    """The runs of every group, beside what its steps should take."""
    groups = grouped(cell, runs)
    if served.synthetic:
        return {group: _middle_drawn(served, own, predict, group) for group, own in groups.items()}
    return {group: (own, predict(served, group, ())) for group, own in groups.items()}


def _middle_drawn(
    served: ServerConfiguration, runs: Sequence[Run], predict: Predict, group: Group
) -> tuple[list[Run], Prediction]:
    """Of the runs of a group the middle one of those that were faster beside what their own draws
    should take.
    """
    own = [(run, predict(served, group, run.counted)) for run in runs]
    own.sort(key=lambda pair: pair[0].decode_s / pair[1].run.decode_s)
    run, predicted = own[(len(own) - 1) // 4]
    return [replace(run, rounds=len(own))], predicted


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
