"""A masked "model" that is a formula, and plain decoding of it, one canvas and one position at a
time.

What it is sure of depends on which positions hold tokens and which tokens these are, as with a real
model. The rules are written here a second time, as loops, so that those of `traces` have something
to agree with.
"""

import math

import numpy as np

from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.provenance import Provenance
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.played import RecordedPrompts, recorded_prompts

VOCABULARY, MASK, END = 32, 31, 30


class Toy:
    """One prompt's canvas: what the model says once some positions hold tokens."""

    def __init__(self, seed, length):
        generator = np.random.default_rng(seed)
        self.length = length
        self.base = generator.uniform(0.02, 0.98, length)
        self.ids = generator.integers(0, END, length)
        self.ids[-2] = END
        self.other = (self.ids + 1) % END

    def says(self, tokens):
        """Id, doubt, entropy and logit gap of every masked position, in half precision."""
        cells = {}
        for at in range(self.length):
            if tokens[at] != MASK:
                continue
            near = [p for p in range(max(0, at - 3), min(self.length, at + 4)) if tokens[p] != MASK]
            right = sum(tokens[p] == self.ids[p] for p in near)
            doubt = self.base[at] * 0.55**right * 0.9 ** len(near)
            token = self.ids[at] if right >= 1 or self.base[at] < 0.7 else self.other[at]
            entropy = -(1 - doubt) * math.log(max(1 - doubt, 1e-9)) - doubt * math.log(
                max(doubt / 8, 1e-9)
            )
            gap = max(0.0, 4 * (1 - doubt) ** 2)
            cells[at] = (int(token), *(float(np.float16(v)) for v in (doubt, entropy, gap)))
        return cells


def chosen(policy, cells, block, step, length, memory=None):  # noqa: PLR0912
    """Positions that a pass commits, by loops over sorted lists; `memory` is a dict that a block's
    passes share."""
    if policy.rule.remembers:
        return remembering(policy, cells, block, step, {} if memory is None else memory)
    at, open_here = policy.at, [p for p in sorted(cells) if p in block]
    by_doubt = sorted(open_here, key=lambda p: cells[p][1])
    by_entropy = sorted(open_here, key=lambda p: cells[p][2])

    def sure(p, key="confidence"):
        return cells[p][1] <= float(np.float16(1 - at[key]))

    match policy.commit:
        case "static":
            picked = by_doubt[: at["tokens"]]
        case "doubling":
            picked = by_doubt[: at["tokens"] * 2**step]
        case "threshold":
            picked = [p for p in open_here if sure(p)]
        case "capped":
            picked = [p for p in by_doubt if sure(p)][: at["tokens"]]
        case "factor":
            counts = [
                n
                for n, p in enumerate(by_doubt, start=1)
                if np.float32(cells[p][1]) * (n + 1) < at["factor"]
            ]
            picked = by_doubt[: max(counts, default=0)]
        case "neighbours":
            anchors = [p for p in open_here if sure(p)]
            picked = [p for p in open_here if any(abs(p - a) <= at["tokens"] for a in anchors)]
            picked = [p for p in picked if p in anchors or sure(p, "near_confidence")]
        case "entropy":
            picked = [p for p in open_here if cells[p][2] <= float(np.float16(at["entropy"]))]
        case "entropy_bound":
            picked = []
            for p in by_entropy:
                if sum(cells[q][2] for q in picked) > at["bound"]:
                    break
                picked.append(p)
        case "in_order":
            first = open_here[0]
            picked = [
                p for p in open_here if cells[p][2] + at["per_token"] * (p - first) < at["entropy"]
            ]
        case "gap":
            answer = [cells[p][3] for p in cells if p >= length - (at["answer_tokens"] or length)]
            done = 1 - len(cells) / length
            limit = at["early"] if done < 1 / 3 else at["middle"] if done < 2 / 3 else at["late"]
            picked = (
                sorted(cells) if answer and sum(answer) / len(answer) >= limit else by_doubt[:1]
            )
        case other:
            raise NotImplementedError(other)
    return picked or by_doubt[:1]


def remembering(policy, cells, block, step, memory):
    """Positions that rules which remember commit, position by position."""
    at, open_here = policy.at, [p for p in sorted(cells) if p in block]
    doubt = {p: cells[p][1] for p in open_here}

    def sure(p, key="confidence"):
        return doubt[p] <= float(np.float16(1 - at[key]))

    if policy.commit == "credit":
        for p in open_here:
            token, lacks = cells[p][:2]
            before = {token: memory.get(p, {}).get(token, 0.0) * at["decay"]}
            memory[p] = {token: before[token] + (1 - lacks) ** at["power"]}
            raised = (1 - lacks) * (1 + memory[p][token]) ** at["weight"]
            doubt[p] = lacks / (lacks + raised)
    elif policy.commit == "history":
        for p in open_here:
            seen = memory.setdefault(p, [])
            seen.append(cells[p][:2])
            last = seen[-int(at["passes"]) :]
            doubt[p] = 1 - sum(1 - lacks for token, lacks in last if token == cells[p][0]) / len(
                last
            )
    else:
        return slow_and_fast(at, open_here, doubt, sure, block, memory)
    return [p for p in open_here if sure(p)] or sorted(open_here, key=lambda p: doubt[p])[:1]


def slow_and_fast(at, open_here, doubt, sure, block, memory):
    span = memory.setdefault(
        "span", {"start": block[0], "end": None, "estimates": [], "passes": 0, "settled": False}
    )
    if span["passes"] >= at["passes"] and not any(
        span["start"] <= p < span["end"] for p in open_here
    ):
        span |= {"start": span["end"], "end": None, "estimates": [], "passes": 0, "settled": False}
    scope = [p for p in open_here if p >= span["start"]]
    if span["passes"] < at["passes"]:
        if not span["settled"]:
            reached = [p for p in scope if sure(p, "reach_confidence")]
            span["estimates"].append(max(reached) + 1 if reached else span["start"] + 1)
            last = span["estimates"][-int(at["window"]) :]
            lengths = [each - block[0] for each in last]
            span["settled"] = len(last) == at["window"] and float(np.std(lengths)) < at["spread"]
            span["end"] = (
                last[-1] if span["settled"] else block[0] + int(sum(lengths) / len(lengths))
            )
        span["passes"] += 1
    else:
        scope = [p for p in scope if p < span["end"]]
    both = [p for p in scope if sure(p)]
    return both if len(both) > 1 else sorted(scope, key=lambda p: doubt[p])[:1]


def decoded(toy, policy):
    """Passes of one canvas: (cells, committed positions, block start) each; and the tokens in the
    end."""
    tokens, passes = [MASK] * toy.length, []
    for start in range(0, toy.length, policy.block_tokens):
        block, step, memory = range(start, start + policy.block_tokens), 0, {}
        while any(tokens[p] == MASK for p in block) and not stopped(policy, tokens):
            cells = toy.says(tokens)
            picked = chosen(policy, cells, block, step, toy.length, memory)
            for p in picked:
                tokens[p] = cells[p][0]
            passes.append((cells, picked, start))
            step += 1
    return passes, tokens


def stopped(policy, tokens):
    if policy.stop != "end_token":
        return False
    before = tokens[: tokens.index(MASK)] if MASK in tokens else tokens
    return END in before


def toy_trace(policies, *, prompts=3, length=16, names=None, **changes):
    """A recording of some policies over some toys, whose names carry their seeds."""
    names = names or [f"toy-{seed}" for seed in range(prompts)]
    columns = {
        key: [] for key in ("request_ids", "policy_of_run", "final_ids", "committed_at", "steps")
    }
    steps = {
        key: []
        for key in (
            "forward",
            "block_start",
            "block_end",
            "computed_tokens",
            "cached_tokens",
            "wall_s",
        )
    }
    cells = {key: [] for key in ("top_ids", "doubt", "entropy", "logit_gap")}
    for name in names:
        for place, policy in enumerate(policies):
            passes, tokens = decoded(Toy(int(name.split("-")[1]), length), policy)
            at = np.full(length, len(passes))
            for step, (said, picked, start) in enumerate(passes):
                at[picked] = step
                row = (0, start, start + policy.block_tokens, length + 2, 0, 0.001)
                for key, value in zip(steps, row, strict=True):
                    steps[key].append(value)
                for p in sorted(said):
                    for key, value in zip(
                        ("top_ids", "doubt", "entropy", "logit_gap"), said[p], strict=True
                    ):
                        cells[key].append(value)
            run = (name, place, tokens, at, len(passes))
            for key, value in zip(columns, run, strict=True):
                columns[key].append(value)
    return ConfidenceTrace(
        **{
            "provenance": Provenance(model="toy"),
            "vocabulary": VOCABULARY,
            "mask_id": MASK,
            "end_id": END,
            "canvas_tokens": length,
            "policies": tuple(policies),
            "request_ids": tuple(columns["request_ids"]),
            "policy_of_run": np.array(columns["policy_of_run"]),
            "prompt_ids": np.tile([1, 2], len(columns["request_ids"])),
            "prompt_offsets": 2 * np.arange(len(columns["request_ids"]) + 1),
            "final_ids": np.array(columns["final_ids"]).reshape(-1, length),
            "committed_at": np.array(columns["committed_at"]).reshape(-1, length),
            "step_offsets": np.cumsum([0, *columns["steps"]]),
            **{key: np.array(values) for key, values in steps.items()},
            **{key: np.array(values) for key, values in cells.items()},
            **changes,
        }
    )


STATIC = RefinePolicy(commit="static", block_tokens=8)
SURE = RefinePolicy(commit="threshold", at={"confidence": 0.9}, block_tokens=8)
BOLD = RefinePolicy(commit="threshold", at={"confidence": 0.5}, block_tokens=8)
ANCHORS = (STATIC, SURE, BOLD)
EVERY_RULE = (
    STATIC,
    SURE,
    RefinePolicy(commit="static", at={"tokens": 3}, block_tokens=8),
    RefinePolicy(commit="doubling", block_tokens=16),
    RefinePolicy(commit="factor", at={"factor": 0.7}, block_tokens=8),
    RefinePolicy(commit="capped", at={"confidence": 0.6, "tokens": 2}, block_tokens=8),
    RefinePolicy(
        commit="neighbours",
        at={"confidence": 0.8, "near_confidence": 0.5, "tokens": 2},
        block_tokens=8,
    ),
    RefinePolicy(commit="entropy", at={"entropy": 0.6}, block_tokens=8),
    RefinePolicy(commit="entropy_bound", at={"bound": 0.5}, block_tokens=8),
    RefinePolicy(commit="in_order", at={"entropy": 0.9, "per_token": 0.05}, block_tokens=8),
    RefinePolicy(
        commit="gap",
        at={"early": 3.0, "middle": 2.5, "late": 2.0, "answer_tokens": 4},
        block_tokens=8,
    ),
    RefinePolicy(commit="credit", at={"confidence": 0.8}, block_tokens=8),
    RefinePolicy(commit="history", at={"confidence": 0.7, "passes": 2}, block_tokens=8),
    RefinePolicy(commit="phases", at={"confidence": 0.7, "passes": 2}, block_tokens=16),
    RefinePolicy(commit="threshold", at={"confidence": 0.7}, block_tokens=4, stop="end_token"),
)


def toy_prompts(*caches: str, length: int = 64, prompts: int = 6) -> list[RecordedPrompts]:
    """Prompts that were recorded one token a pass and by a threshold, beside each of some caches."""
    rules: list[tuple[str, dict[str, float]]] = [("static", {}), ("threshold", {"confidence": 0.7})]
    return recorded_prompts(
        [
            toy_trace(
                [
                    RefinePolicy(commit=rule, at=at, block_tokens=16, cache=cache)
                    for rule, at in rules
                ],
                prompts=prompts,
                length=length,
            )
            for cache in caches
        ]
    )
