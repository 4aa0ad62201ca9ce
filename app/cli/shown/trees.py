"""The tables of `rooftree tree`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_ORACLES = {
    "one_tree_at_most": "any tree, at most",
    "tree_per_request_at_most": "a tree per request, at most",
    "tree_per_step": "a tree per step, knowing the text",
}
_SHOWN = 16  # requests of a batch
_FORMS = {
    "chain": "chain",
    "level_uniform": "children by level (vLLM)",
    "beam": "beam (EAGLE-2, SGLang)",
}


def print_trees(answer: dict[str, Any], title: str, out: Path | None) -> None:
    """Print the trees, what engines can run of them, and where they are written.

    Args:
        answer: of the verb.
        title: where acceptance is known from.
        out: folder that files are written to, or None.
    """
    from app.answers.numbers import plain
    from app.render.text import print_table, say

    rows, assumed = answer["trees"], answer["remark"]
    if any("states" in row for row in rows):
        _print_states(rows, title)
        rows = []
    dynamic, held_out = (
        any("dynamic_tree" in row for row in rows),
        any("held_out" in row for row in rows),
    )
    cells = [
        [
            plain(r["nodes"]),
            plain(r["depth"]),
            f"{r['tokens_per_step']:.4f}",
            str(r["certificate"]["kind"]),
            ", ".join(map(str, _widths(r["parents"]))),
            *_oracle_cells(r),
            *(
                [f"{r['dynamic_tree']['tokens_per_step']:.4f}" if "dynamic_tree" in r else ""]
                if dynamic
                else []
            ),
            *(
                [f"{r['held_out']['tokens_per_step']:.4f} ({r['held_out']['gain_ratio']:+.1%})"]
                if held_out
                else []
            ),
        ]
        for r in rows
    ]
    columns = ["nodes", "levels", "tokens/step", "certificate", "nodes by level"]
    shown = [*columns, *(_ORACLES.values() if any("oracle" in row for row in rows) else ())]
    shown += [*(["dynamic, same nodes"] if dynamic else [])]
    shown += ["held out (against the vector's tree)"] if held_out else []
    if cells:
        print_table(title, shown, cells)
    _print_runtime(rows)
    _print_sampling(rows)
    _print_fastest(answer)
    if assumed:
        say(assumed)
    if out:
        say(f"written to {out}")


def print_splits(rows: list[dict[str, Any]], title: str) -> None:
    """Print how the nodes of a batch are shared, and what that gains over as many for each.

    Args:
        rows: as `app.answers.trees.batch_splits.split_rows` gives them.
        title: whose requests they are.
    """
    from app.answers.numbers import plain
    from app.render.text import print_table, say

    cells = [
        [
            plain(r["nodes"]),
            f"{r['tokens_per_step']:.4f}",
            f"{r['uniform_tokens_per_step']:.4f}",
            f"{r['gain_ratio']:+.1%}",
            "" if r["gain_by_chance_ratio"] is None else f"{r['gain_by_chance_ratio']:+.1%}",
            " ".join(map(str, r["draft_tokens"][:_SHOWN]))
            + (" .." if r["requests"] > _SHOWN else ""),
        ]
        for r in rows
    ]
    columns = [
        "nodes",
        "tokens/step",
        "as many for each",
        "gain",
        "by chance",
        "draft tokens by request",
    ]
    print_table(title, columns, cells, caption="of the whole batch; nodes: roots included")
    if any(r["gain_by_chance_ratio"] is not None for r in rows):
        say(
            "each request is known by the tokens recorded of it; by chance: what equal requests"
            " would seem to gain"
        )


def _oracle_cells(row: dict[str, Any]) -> list[str]:
    return [f"{row['oracle'][key]:.4f}" for key in _ORACLES] if "oracle" in row else []


def _print_runtime(rows: list[dict[str, Any]]) -> None:
    """What engines can run within each budget, and what that loses."""
    from app.answers.numbers import plain
    from app.render.text import print_table

    cells = [
        [
            plain(row["nodes"]),
            _FORMS[tree["form"]],
            _settings(tree),
            plain(tree["nodes"]),
            f"{tree['tokens_per_step']:.4f}",
            f"{tree['loss_ratio']:.1%}",
        ]
        for row in rows
        for tree in row.get("runtime_trees", ())
    ]
    if cells:
        columns = ["budget", "form", "settings", "nodes", "tokens/step", "lost"]
        print_table("what engines can run, and what it loses against the free tree", columns, cells)


def _print_sampling(rows: list[dict[str, Any]]) -> None:
    """The safest tree of each budget, and how many recorded tokens are enough."""
    from app.answers.numbers import plain
    from app.render.text import print_table

    cells = [
        [
            plain(row["nodes"]),
            plain(s["recorded_tokens"]),
            f"{s['mean_regret_ratio']:.2%}",
            f"{s['low_tokens_per_step']:.4f}",
            f"{s['safe_tree']['low_tokens_per_step']:.4f}",
            (
                ", ".join(map(str, _widths(s["safe_tree"]["parents"])))
                if s["changes"]
                else "the same tree"
            ),
            _enough(s),
        ]
        for row in rows
        if (s := row.get("sampling"))
    ]
    if cells:
        columns = [
            "nodes",
            "recorded tokens",
            "mean regret",
            "low end",
            "safest tree's",
            "safest tree, by level",
            "enough tokens",
        ]
        caption = (
            "low end: 9 draws of 10 emit more; enough: a tree chosen on so many loses at most 1 %"
            " in 9 of 10"
        )
        print_table(
            "how sure the trees of the sibling vectors are", columns, cells, caption=caption
        )


def _enough(sampling: dict[str, Any]) -> str:
    from app.answers.numbers import plain

    most, enough = sampling["regret_by_tokens"][-1][0], sampling["enough_tokens"]
    return f"more than {plain(most)}" if enough is None else plain(enough)


def _print_fastest(answer: dict[str, Any]) -> None:
    """The fastest tree at each batch and context, beside those that emit most per step."""
    from app.answers.numbers import plain
    from app.render.text import print_table

    rows, inputs = answer.get("fastest", []), answer["inputs"]
    cells = [
        [
            plain(row["batch"]),
            plain(row["context"]),
            plain(row["nodes"]),
            ", ".join(map(str, _widths(row["parents"]))),
            f"{row['tokens_per_step']:.3f}",
            plain(round(row["tokens_per_s"])),
            f"{row['speedup']:.2f}",
            f"{row['certificate'].get('gap', 0.0) / row['tokens_per_s']:.1%}",
            *(plain(round(each["tokens_per_s"])) for each in row["budget_trees"]),
        ]
        for row in rows
    ]
    if cells:
        columns = [
            "batch",
            "context",
            "nodes",
            "nodes by level",
            "tokens/step",
            "tokens/s",
            "speedup",
            "gap at most",
        ]
        columns += [f"tokens/s with {each['nodes']} nodes" for each in rows[0]["budget_trees"]]
        print_table(
            f"the fastest tree of {inputs['method']} for {inputs['model']} on {inputs['device']}",
            columns,
            cells,
        )


def _settings(tree: dict[str, Any]) -> str:
    if tree["form"] == "chain":
        return f"K={tree['draft_tokens']}"
    if tree["form"] == "level_uniform":
        return " x ".join(map(str, tree["children"]))
    return f"topk {tree['topk']}, {tree['steps']} steps, {tree['draft_tokens']} draft tokens"


def _print_states(rows: list[dict[str, Any]], title: str) -> None:
    from app.answers.numbers import plain
    from app.render.text import print_table

    cells = [
        [
            plain(row["nodes"]),
            f"{row['tokens_per_step']:.4f}",
            str(state),
            f"{each['share']:.1%}",
            plain(len(each["parents"]) - 1),
            plain(sum(each["prompt_tokens"])),
            f"{each['tokens_per_step']:.4f}",
            ", ".join(map(str, _widths(each["parents"]))),
        ]
        for row in rows
        for state, each in enumerate(row["states"], 1)
    ]
    columns = [
        "nodes",
        "tokens/step",
        "state",
        "of the steps",
        "candidates",
        "prompt tokens",
        "tokens/step there",
        "candidates by level",
    ]
    print_table(title, columns, cells)


def _widths(parents: list[int]) -> list[int]:
    depth = [0] * len(parents)
    for node, parent in enumerate(parents):
        if parent >= 0:
            depth[node] = depth[parent] + 1
    return [depth.count(level) for level in range(max(depth) + 1)]
