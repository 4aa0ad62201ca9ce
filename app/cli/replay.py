"""`replay`: tokens per step of chains and trees on a recorded trace, exactly."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import MOST_DRAFT_TOKENS, Json, MatchRate, Out, Quiet, Seed, ratio, whole_numbers

if TYPE_CHECKING:
    from traces.replay import Replay


def replay(
    trace: Annotated[Path, typer.Argument(help="Acceptance trace (Parquet, or position JSON).")],
    draft_tokens: Annotated[str, typer.Option("--draft-tokens", help="Draft tokens K, comma-separated.")] = "1,3,5",
    tree: Annotated[list[Path] | None, typer.Option("--tree", help="Tree JSON; repeat for several.")] = None,
    match_rate: MatchRate = None,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Walk recorded requests with chains of K draft tokens and with static trees."""
    from dataclasses import replace

    import numpy as np

    from app.cli.output import deliver, print_table, require_folder
    from costmodel.acceptance import from_replay
    from costmodel.uncertainty import interval
    from traces.library import read_trace
    from traces.naming import naming
    from traces.replay import replay_chain, replay_tree
    from traces.statistics import resample_counts
    from traces.tree import read_tree

    if out is not None:
        require_folder(out)
    lengths = whole_numbers(draft_tokens, "--draft-tokens", least=0, most=MOST_DRAFT_TOKENS)
    recorded = read_trace(trace)
    recorded.require(1, "replaying")
    rate = ratio(match_rate, "--match-rate")
    if rate is not None and recorded.drafted is None:
        recorded = replace(recorded, match_rate=rate)
    shapes = [(path, read_tree(path)) for path in tree or []]
    counts = resample_counts(recorded.prompt_kinds, generator=np.random.default_rng(seed)).astype(np.float64)

    def row(played: "Replay") -> dict[str, Any]:
        accepted = from_replay(played, counts)
        low, high = interval(accepted.samples)
        return {
            "draft_tokens": accepted.draft_tokens,
            "tokens_per_step": accepted.tokens_per_step,
            "interval": [float(low), float(high)],
            "tokens": int(played.tokens.sum()),
            "steps": int(played.steps.sum()),
            "proposal_ratio": accepted.proposal_ratio,
        }

    chains = [row(replay_chain(recorded, k)) for k in lengths]
    trees = []
    for path, shape in shapes:
        with naming(str(path)):
            trees.append({"tree": str(path), "depth": shape.depth, **row(replay_tree(recorded, shape))})
    inputs = {
        "trace": str(trace), "draft_tokens": lengths, "tree": [str(path) for path, _ in shapes],
        "match_rate": match_rate, "seed": seed,
    }  # fmt: skip
    deliver({"inputs": inputs, "chains": chains, "trees": trees}, name="replay", json=json, out=out)
    if not json and not quiet:
        rows = [[f"K={c['draft_tokens']}", *_cells(c)] for c in chains]
        rows += [[f"{t['tree']} ({t['draft_tokens']})", *_cells(t)] for t in trees]
        columns = [
            "configuration",
            "tokens/step",
            "80 % interval",
            "tokens",
            "steps",
            "steps with a proposal",
        ]
        print_table(str(trace), columns, rows)


def _cells(row: dict[str, Any]) -> list[str]:
    low, high = row["interval"]
    return [
        f"{row['tokens_per_step']:.4f}", f"[{low:.3f}, {high:.3f}]", str(row["tokens"]), str(row["steps"]),
        f"{row['proposal_ratio']:.1%}",
    ]  # fmt: skip
