"""Which draft does rooftree choose where others measured several, and what does its choice lose?

Runs of SpecBundle (SGLang on H200: chains of 3, 5 and 7 draft tokens and two dynamic trees, five
targets, seven drafters, seven data sets) and of vLLM 0.9 on one H100 (chains of 2 to 7). Only
accepted lengths are told: all that were measured, or the one at a single K, from which only chains
are chosen: it does not tell what a tree keeps. Questions are asked as a user asks them, through
`import rooftree`; no constant knows these runs. SpecBundle does not state its tensor parallelism:
that whose plain decoding comes nearest to the plain runs is taken, so that no run with a drafter
enters. `python -m tests.golden.chosen_shapes TABLE` prints what is lost, by a table such as
`tests/published/drafted_runs.csv`.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, median

import rooftree

WIDTHS = (1, 2, 4, 8)
TREES = {
    "tree of 5": "dynamic:5x5:width=3:beam=3",
    "tree of 7": "dynamic:7x7:width=4:beam=4",
}
TARGETS = {
    "Qwen3-30B-A3B-Instruct-2507": ("qwen3-30b-a3b", "bf16"),
    "Qwen3-Coder-30B-A3B-Instruct": ("qwen3-coder-30b-a3b", "bf16"),
    "Kimi-K2-Instruct": ("kimi-k2", "fp8"),
    "Llama-3.1-8B-Instruct": ("llama-3.1-8b", "bf16"),
    "Llama-3.3-70B-Instruct": ("llama-3.3-70b", "bf16"),
}


@dataclass(frozen=True)
class Run:
    """What one shape did: tokens per step, and its throughput against plain decoding's."""

    length: float
    speedup: float


@dataclass(frozen=True)
class Group:
    """Shapes that were measured on one target, drafter, data set and batch.

    Args:
        name: target, drafter and data set.
        target: as published.
        place: options that say where it ran.
        method: slug of the drafter's method.
        batch: requests in flight.
        plain_tokens_per_s: without a drafter; None where it is not comparable.
        runs: by shape: K of a chain as a text, or the name of a tree.
    """

    name: str
    target: str
    place: Mapping[str, object]
    method: str
    batch: int
    plain_tokens_per_s: float | None
    runs: Mapping[str, Run]

    @property
    def chains(self) -> list[int]:
        """The draft lengths that were measured."""
        return sorted(int(shape) for shape in self.runs if shape.isdigit())

    def loss(self, shape: str) -> float:
        """Share of the best measured throughput that a shape loses."""
        return 1.0 - self.runs[shape].speedup / max(run.speedup for run in self.runs.values())


def spec_bundle(table: Path) -> list[Group]:
    """The groups of SpecBundle in a table of drafted runs."""
    found = defaultdict(list)
    for row in _rows(table):
        if "spec_bundle" in row["source"]:
            key = ("model", "drafter", "dataset", "concurrency_or_batch", "baseline")
            found[tuple(row[name] for name in key)].append(row)
    groups = []
    for (target, drafter, data, batch, plain), rows in found.items():
        model, dtype = TARGETS[target]
        place: dict[str, object] = {
            "model": model,
            "dtype": dtype,
            "device": "h200-sxm",
            "engine": "sglang",
        }
        plains = tuple(float(key[4]) for key in found if key[0] == target)
        wide = _width(tuple(place.items()), int(batch), plains)
        groups.append(
            Group(
                f"{target}, {drafter}, {data}",
                target,
                {**place, "tp": wide},
                "eagle-3",
                int(batch),
                float(plain),
                {
                    _shape(row): Run(float(row["acceptance_length"]), float(row["speedup"]))
                    for row in rows
                },
            )
        )
    return groups


def vllm_chains(table: Path) -> list[Group]:
    """Chains of 2 to 7 tokens of two heads, in vLLM 0.9 on one H100; the head of EAGLE-1 is that of
    EAGLE-2."""
    place = {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm"}
    found = []
    for head, method in (("EAGLE-1", "eagle-2"), ("EAGLE-3", "eagle-3")):
        rows = [
            row for row in _rows(table) if "issue 20780" in row["source"] and row["method"] == head
        ]
        runs = {
            row["K"]: Run(float(row["acceptance_length"]), float(row["speedup"])) for row in rows
        }
        found.append(
            Group(f"vLLM 0.9, {head}", f"Llama-3.1-8B, {head}", place, method, 1, None, runs)
        )
    return found


def predicted(group: Group, known: Sequence[int]) -> dict[str, float]:
    """Predicted speedup of every shape whose acceptance is told or follows from what is told.

    Args:
        group: the shapes.
        known: draft lengths whose accepted length is told; where it is all of them, those of trees
            are told as well.
    """
    told = ",".join(f"{group.runs[str(k)].length}@{k}" for k in known)
    at = (*group.place.items(), ("batch", group.batch))
    found = {
        str(k): speedup
        for k, speedup in _asked(
            (*at, ("drafter", f"{group.method}:length={told}"), ("draft_tokens", *group.chains))
        )
    }
    if list(known) == group.chains:
        for tree in group.runs.keys() & TREES.keys():
            drafter = f"{group.method}:length={group.runs[tree].length}"
            ((_, found[tree]),) = _asked((*at, ("drafter", drafter), ("shape", TREES[tree])))
    return found


def chosen(group: Group, known: Sequence[int]) -> str:
    """The chain that `optimize` puts first."""
    told = ",".join(f"{group.runs[str(k)].length}@{k}" for k in known)
    answer = rooftree.optimize(
        drafter=f"{group.method}:length={told}",
        draft_tokens=group.chains,
        **group.place,
        batch=group.batch,
    )
    return str(answer["choices"][0]["draft_tokens"])


def choice(found: Mapping[str, float]) -> str:
    """The shape with the greatest predicted speedup."""
    return max(found, key=found.__getitem__)


def losses(groups: Sequence[Group]) -> dict[str, list[float]]:
    """Lost shares of the best measured throughput: of rooftree's choices by what it was told, and
    of fixed shapes."""
    shapes = sorted(
        {shape for group in groups for shape in group.runs}, key=lambda shape: (len(shape), shape)
    )
    ways = {"all accepted lengths": groups[0].chains}
    ways |= {f"accepted length at K={k} alone": [k] for k in groups[0].chains}
    found = {
        way: [g.loss(choice(predicted(g, known))) for g in groups] for way, known in ways.items()
    }
    return found | {f"always {shape}": [g.loss(shape) for g in groups] for shape in shapes}


def errors(groups: Sequence[Group]) -> dict[tuple[str, str], list[float]]:
    """Predicted over measured speedup, less 1, with all accepted lengths told, by target and kind
    of shape."""
    found = defaultdict(list)
    for group in groups:
        for shape, speedup in predicted(group, group.chains).items():
            kind = "chains" if shape.isdigit() else "trees"
            found[group.target, kind].append(speedup / group.runs[shape].speedup - 1)
    return dict(found)


@cache
def _asked(options: tuple[tuple[object, ...], ...]) -> tuple[tuple[int, float], ...]:
    """Draft tokens and speedup of every row that `predict` answers; options are names, each with
    one value or more."""
    named = {str(name): list(values) if len(values) > 1 else values[0] for name, *values in options}
    return tuple(
        (row["draft_tokens"], row["speedup"]) for row in rooftree.predict(**named)["predictions"]
    )


def _rows(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _shape(row: Mapping[str, str]) -> str:
    return row["K"] if row["tree"] == "chain" else f"tree of {row['K']}"


@cache
def _width(
    place: tuple[tuple[str, object], ...], batch: int, plain_tokens_per_s: tuple[float, ...]
) -> int:
    """Tensor parallelism whose plain decoding comes nearest to what was measured, of the widths
    that fit."""
    ratios = {}
    for width in WIDTHS:
        try:
            answer = rooftree.predict(**dict(place), tp=width, batch=batch, draft_tokens=0)
        except rooftree.InfeasibleError:
            continue
        rate = answer["predictions"][0]["tokens_per_s"] / median(plain_tokens_per_s)
        ratios[width] = max(rate, 1.0 / rate)
    return min(ratios, key=ratios.__getitem__)


def show(groups: Sequence[Group]) -> None:
    """Print what choices lose, and how far speedups are off."""
    print(f"{len(groups)} groups, {sum(len(group.runs) for group in groups)} measured runs")
    for way, lost in losses(groups).items():
        print(f"  {way:32} loses {mean(lost):6.2%} of the best on average, {max(lost):.1%} at most")
    for (target, kind), off in sorted(errors(groups).items()):
        size = median(abs(each) for each in off)
        print(
            f"  {target:28} {kind:7} speedup off by {size:.1%} in the median, bias"
            f" {median(off):+.1%}"
        )


if __name__ == "__main__":
    for measured in (spec_bundle(Path(sys.argv[1])), vllm_chains(Path(sys.argv[1]))):
        show(measured)
