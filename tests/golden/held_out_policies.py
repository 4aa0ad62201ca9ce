"""Our choice beside published policies on held-out halves of every shipped recording, batch 1, 8
and 64.

`python -m tests.golden.held_out_policies` prints the table; `--write` puts it into
`held_out_policies.csv`. The target is Llama-3.1-8B on an H100 under vLLM, on which the acceptance
of the recordings (of a small target) is borrowed, so that drafts cost what they cost people.
Requests are halved three times, six halves: more would hardly narrow the intervals, whose variance
is (1 / halves + 1) times that between halves. Takes about three minutes of CPU time.
"""

import csv
import multiprocessing
import sys
from dataclasses import astuple
from pathlib import Path

from app.answers.replay.held_out import held_out_batches
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.held_out.policies import SCHEDULE
from hardware_profiles.errors import RooftreeError
from traces.library import trace_file

FILE = Path(__file__).parent / "held_out_policies.csv"
RECORDED = Path(trace_file("smollm2-135m--early-exit--greedy")).parent
QUESTION = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm"),
    draft_model="llama-3.2-1b",
)
BATCHES = (1, 8, 64)
CONTEXT = 1024
SPLITS = 3
CHOOSING = (
    "moving average",
    "SmartSpec",
    "Kangaroo, 0.6",
    "SpecDec++, 0.3",
    "DSpark's verification, K=7",
    "DSpark's verification, calibrated",
    "OPT-Tree, 60 nodes",
    "EAGLE-2, 60 nodes",
)
"""Policies whose drafts, or what is verified of them, differ from step to step."""
COLUMNS = (
    "recording",
    "batch",
    "policy",
    "runs",
    "tokens per step",
    "tokens/s",
    "rooftree gains",
    "interval low",
    "interval high",
    "against the best of each half",
    "step oracle tokens/s",
    "request oracle tokens/s",
)


def recordings():
    """Every shipped acceptance recording, by its path below the folder of recordings."""
    folders = (".", "catalogue", "level-3", "level-3-trees")
    return [path for folder in folders for path in sorted((RECORDED / folder).glob("*.parquet"))]


def lines(path, batches=BATCHES):
    """Lines of the table: one per policy and batch, ours first; or the reason why there is nothing
    to compare."""
    name = str(path.relative_to(RECORDED).with_suffix(""))
    try:
        rows = held_out_batches(path, QUESTION, batches, CONTEXT, splits=SPLITS)
    except RooftreeError as error:
        return [(name, "", f"not compared: {error}", *[""] * (len(COLUMNS) - 3))]
    found = []
    for row in rows:
        for place, policy in enumerate(row.policies):
            ours = place == 0
            gain = (row.gain_ratio, *row.gain_interval, row.half_gain_ratio) if ours else ()
            runs = "; ".join(f"{run.draft} ({run.halves})" for run in policy.drafts)
            bounds = astuple(row.oracle) if ours else ()
            found.append(
                (
                    name,
                    row.batch,
                    policy.policy,
                    runs,
                    f"{policy.tokens_per_step:.4f}",
                    f"{policy.tokens_per_s:.1f}",
                    *([f"{x:.4f}" for x in gain] or [""] * 4),
                    *(["" if x is None else f"{x:.1f}" for x in bounds] or [""] * 2),
                )
            )
    return found


def main(arguments):
    """Print the table, and write it where that is asked; `--workers N` compares so many recordings
    at a time."""
    workers = int(arguments[arguments.index("--workers") + 1]) if "--workers" in arguments else 1
    paths = recordings()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        table = []
        for path, found in zip(paths, pool.imap(lines, paths), strict=True):
            table += found
            print(
                path.stem,
                *(line[:2] + line[3:10] for line in found if line[2] == "rooftree"),
                flush=True,
            )
    if "--write" in arguments:
        with FILE.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *table])
    print(summary(table))
    for (batch, policy), (gain, slower, of) in schedule_by_load(table).items():
        print(f"batch {batch}, one shape over {policy}: {gain:+.1%}, slower on {slower} of {of}")


def summary(table):
    """One sentence on how our choice compares."""
    ours = [line for line in table if line[2] == "rooftree"]
    gains = sorted(float(line[6]) for line in ours)
    by_half = [float(line[9]) for line in ours]
    faster, slower = (
        sum(float(line[at]) * sign > 0 for line in ours) for at, sign in ((7, 1), (8, -1))
    )
    return (
        f"{len(ours)} cells, ours against the best of the others over all halves, in hindsight:"
        f" median {gains[len(gains) // 2]:+.1%}, mean {sum(gains) / len(gains):+.1%},"
        f" {gains[0]:+.1%} to {gains[-1]:+.1%}; faster by more than the interval in {faster},"
        f" slower in {slower}; against the best of each half: mean"
        f" {sum(by_half) / len(by_half):+.1%}"
    )


def schedule_by_load(table):
    """By batch and policy that chooses at every step: tokens/s of one shape for the batch over its
    own less 1, as the median of recordings, and on how many of these the one shape is slower."""
    ratios = {}
    speeds = {
        line[:3]: float(line[5]) for line in ((*map(str, line),) for line in table) if line[5]
    }
    for (name, batch, policy), speed in speeds.items():
        one = speeds.get((name, batch, SCHEDULE.name))
        if policy in CHOOSING and one is not None:
            ratios.setdefault((int(batch), policy), []).append(one / speed - 1.0)
    return {
        key: (sorted(gains)[len(gains) // 2], sum(gain < 0.0 for gain in gains), len(gains))
        for key, gains in sorted(ratios.items())
    }


if __name__ == "__main__":
    main(sys.argv[1:])
