"""Our choice beside published policies on held-out halves of every shipped recording, batch 1, 8 and 64.

`python -m tests.golden.held_out_policies` prints the table; `--write` puts it into `held_out_policies.csv`. The target
is Llama-3.1-8B on an H100 under vLLM, on which the acceptance of the recordings (of a small target) is borrowed, so
that drafts cost what they cost people. Takes about ten minutes of CPU time.
"""

import csv
import multiprocessing
import sys
from pathlib import Path

from app.answers.policies import held_out_rows
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import RooftreeError
from traces.library import trace_file

FILE = Path(__file__).parent / "held_out_policies.csv"
RECORDED = Path(trace_file("smollm2-135m--early-exit--greedy")).parent
QUESTION = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm"), draft_model="llama-3.2-1b"
)
BATCHES = (1, 8, 64)
CONTEXT = 1024
COLUMNS = (
    "recording", "batch", "policy", "first half runs", "second half runs", "tokens per step", "tokens/s",
    "rooftree gains", "interval low", "interval high", "step oracle tokens/s", "request oracle tokens/s",
)  # fmt: skip


def recordings():
    """Every shipped acceptance recording, by its path below the folder of recordings."""
    folders = (".", "catalogue", "level-3", "level-3-trees")
    return [path for folder in folders for path in sorted((RECORDED / folder).glob("*.parquet"))]


def lines(path, batches=BATCHES):
    """Lines of the table: one per policy and batch, ours first; or the reason why there is nothing to compare."""
    name = str(path.relative_to(RECORDED).with_suffix(""))
    try:
        rows = held_out_rows(path, QUESTION, batches, CONTEXT)
    except RooftreeError as error:
        return [(name, "", f"not compared: {error}", *[""] * (len(COLUMNS) - 3))]
    found = []
    for row in rows:
        for place, policy in enumerate(row["policies"]):
            ours = place == 0
            gain = (row["gain_ratio"], *row["gain_interval"]) if ours else ()
            bounds = row["oracle"].values() if ours else ()
            found.append(
                (name, row["batch"], policy["policy"], *reversed(policy["drafts"]), f"{policy['tokens_per_step']:.4f}",
                 f"{policy['tokens_per_s']:.1f}", *([f"{x:.4f}" for x in gain] or [""] * 3),
                 *(["" if x is None else f"{x:.1f}" for x in bounds] or [""] * 2))
            )  # fmt: skip
    return found


def main(arguments):
    """Print the table, and write it where that is asked; `--workers N` compares so many recordings at a time."""
    workers = int(arguments[arguments.index("--workers") + 1]) if "--workers" in arguments else 1
    paths = recordings()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        table = []
        for path, found in zip(paths, pool.imap(lines, paths), strict=True):
            table += found
            print(path.stem, *(line[:4] + line[5:10] for line in found if line[2] == "rooftree"), flush=True)
    if "--write" in arguments:
        with FILE.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *table])
    print(summary(table))


def summary(table):
    """One sentence on how our choice compares."""
    ours = [line for line in table if line[2] == "rooftree"]
    gains = sorted(float(line[7]) for line in ours)
    faster, slower = (sum(float(line[at]) * sign > 0 for line in ours) for at, sign in ((8, 1), (9, -1)))
    return (
        f"{len(ours)} cells, ours against the best of the others there, in hindsight: median "
        f"{gains[len(gains) // 2]:+.1%}, mean {sum(gains) / len(gains):+.1%}, {gains[0]:+.1%} to {gains[-1]:+.1%}; "
        f"faster by more than the interval in {faster}, slower in {slower}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
