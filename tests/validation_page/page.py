"""Write VALIDATION.md of the committed results: `make validation`.

The page's sentences stand in `page.md.j2`; every number in it comes from a file that a command
wrote (`tests.validation_page.summaries` says which) or from the results of our own runs. Leaves out
how anything is measured.
"""

import csv
import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import jinja2
import numpy as np

from app.answers.scoring.published import FILE as PUBLISHED_ERRORS
from tests.golden.held_out_policies import FILE as HELD_OUT
from tests.validation_page.summaries import ALL_TARGETS, read

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "VALIDATION.md"
OWN = ROOT / "real_runs" / "results"
# an unseen slice that is off by more stands among what is wrong today
WRONG = {"tpot": 0.15, "ttft": 0.30}
INSIDE = "%coverage_ratio"
KERNELS = f"device operation rows %median_error_ratio %p90_error_ratio {INSIDE}"
DEVELOPED = "%median %p90 ±bias %coverage"
LOST = (
    "trace recorded_on device cells %by_rates_mean_ratio %by_rates_max_ratio"
    " %by_mean_mean_ratio %by_mean_max_ratio"
)
Row = Mapping[str, Any]


def percent(ratio: float | None) -> str:
    """A share as percent: one digit below ten, none above, a dash where it is not known."""
    if ratio is None:
        return "—"
    return f"{100 * ratio:.1f}" if abs(ratio) < 0.0995 else f"{100 * ratio:.0f}"


def signed(ratio: float | None) -> str:
    """The same with its sign."""
    if ratio is None:
        return "—"
    return (
        f"{percent(abs(ratio))}"
        if round(ratio, 3) == 0
        else f"{'+−'[ratio < 0]}{percent(abs(ratio))}"
    )


def table(heads: str, rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; `heads` are separated by bars."""
    names = [name.strip() for name in heads.split("|")]
    lines = [names, ["---"] * len(names), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(row: Row, columns: str) -> list[object]:
    """Values of a row by the names of columns: `%name` is a share in percent, `±name` one with its
    sign, `name` the value as it is.

    >>> cells({"runs": 3, "bias_ratio": -0.2}, "runs ±bias_ratio")
    [3, '−20']
    """
    forms = {"%": percent, "±": signed}
    return [
        forms[name[0]](row.get(name[1:])) if name[0] in forms else row[name]
        for name in columns.split()
    ]


def serving_table(rows: Iterable[Row]) -> str:
    """Errors of unseen serving runs, a line a slice."""
    return table(
        "published runs | answered | TPOT: median | p90 | bias | inside"
        " | TTFT: median | p90 | bias | inside",
        (
            [
                row["value"],
                f"{row['answered']:,} of {row['measurements']:,}",
                *cells(row, " ".join(_times("%median_error %p90_error ±bias %coverage"))),
            ]
            for row in rows
        ),
    )


def _times(columns: str) -> list[str]:
    """The columns of the time per output token, then those of the time to first token."""
    names = columns.split()
    return [f"{name[0]}{time}_{name[1:]}_ratio" for time in WRONG for name in names]


def wrong_serving(rows: Iterable[Row]) -> str:
    """Slices of unseen serving runs whose median error is beyond `WRONG`, worst first."""
    found = [
        (row[f"{quantity}_median_error_ratio"], quantity.upper(), row)
        for row in rows
        for quantity, most in WRONG.items()
        if (row[f"{quantity}_median_error_ratio"] or 0.0) > most
    ]
    return table(
        "serving runs of | runs | quantity | median error | bias",
        (
            (
                f"{row['slice']} {row['value']}",
                row["answered"],
                quantity,
                f"{percent(error)} %",
                f"{signed(row[f'{quantity.lower()}_bias_ratio'])} %",
            )
            for error, quantity, row in sorted(found, key=lambda item: -item[0])
        ),
    )


def of_points(points: Iterable[Row]) -> Row:
    """Errors and coverage of some of a validation's configurations."""
    kept = list(points)
    off = np.array([point["error_ratio"] for point in kept])
    return {
        "configurations": len(kept),
        "median_error_ratio": float(np.median(abs(off))),
        "p90_error_ratio": float(np.quantile(abs(off), 0.9)),
        "bias_ratio": float(np.median(off)),
        "coverage_ratio": float(np.mean([point["covered"] for point in kept])),
    }


def own_runs() -> list[Row]:
    """Summaries of every validation of ours that is committed, by folder; where drafts of made-up
    acceptance ran beside those of real text, a line of both."""
    rows = []
    for path in sorted(OWN.glob("**/validation.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        place = path.parent.relative_to(OWN).parts
        run = {"place": place[0], "what": place[2], **report["summary"]}
        texts = [point for point in report["points"] if point["kind"] != "synthetic"]
        rows.append(run | of_points(texts))
        if len(texts) < len(report["points"]):
            made_up = [point for point in report["points"] if point["kind"] == "synthetic"]
            of_made_up = {"mean_regret_ratio": None, "most_regret_ratio": None}
            rows.append(
                {**run, "what": f"{place[2]}, drafts of made-up acceptance"}
                | of_points(made_up)
                | of_made_up
            )
    return rows


def loads() -> list[Row]:
    """Loads of a real server beside their simulation: means of TPOT and TTFT."""
    (path,) = OWN.glob("**/loads/replay.json")
    return [
        {
            "name": load["name"],
            "requests": load["requests"],
            "rate_per_s": f"{load['rate_per_s']:.2f}",
            **{
                quantity: load["metrics"][f"{quantity}_s"]["mean"]["error_ratio"]
                for quantity in ("tpot", "ttft")
            },
        }
        for load in json.loads(path.read_text(encoding="utf-8"))["loads"]
    ]


def held_out() -> Row:
    """Our choices on one half of every recording, run on the other, beside published policies."""
    with HELD_OUT.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["rooftree gains"]]
    gains = [float(row["rooftree gains"]) for row in rows]
    lows = [float(row["interval low"]) for row in rows]
    highs = [float(row["interval high"]) for row in rows]
    return {
        "recordings": len({row["recording"] for row in rows}),
        "cells": len(rows),
        "mean": mean(gains),
        "least": min(gains),
        "most": max(gains),
        "above": sum(low > 0 for low in lows),
        "below": sum(high < 0 for high in highs),
    }


def in_short() -> tuple[str, ...]:
    """What the README repeats: speedups by drafts, unseen serving runs, which draft is chosen."""
    return (_speedups_in_short(), _serving_in_short(), _choices_in_short())


def _speedups_in_short() -> str:
    vllm = read("vllm_speedups")[0]
    chains, trees, older = (
        next(row for row in read("chosen_shapes") if (row["place"], row["value"]) == named)
        for named in (
            ("SGLang on H200", f"{ALL_TARGETS}: chains"),
            ("SGLang on H200", f"{ALL_TARGETS}: trees"),
            ("vLLM 0.9 on H100", "Llama-3.1-8B, EAGLE-3: chains"),
        )
    )
    return (
        f"Speedups by drafts, accepted lengths known: {percent(vllm['median_error_ratio'])} % off in"
        f" the median on {vllm['rows']} runs of EAGLE-3 and n-gram in vLLM 0.10 on an H100,"
        f" {_off_to_a_side(chains)} on {chains['rows']} chains of EAGLE-3 in SGLang on H200,"
        f" {_off_to_a_side(trees)} on {trees['rows']} trees there, {_off_to_a_side(older)} on"
        f" {older['rows']} chains in vLLM 0.9, whose steps with EAGLE-3 took longer."
    )


def _off_to_a_side(row: Row) -> str:
    side = "too high" if row["bias_ratio"] > 0 else "too low"
    return f"{percent(row['median_error_ratio'])} % ({side})"


def _serving_in_short() -> str:
    whole, tools = read("unseen_serving")[0], read("peers")
    theirs = {
        quantity: sorted(row[f"{quantity}_median_error_ratio"] for row in tools[1:])
        for quantity in ("tpot", "ttft")
    }
    return (
        f"Serving without drafts, {whole['measurements']:,} published runs of models on devices that"
        f" no constant was fitted to: time per output token"
        f" {percent(whole['tpot_median_error_ratio'])} % off in the median, time to first token"
        f" {percent(whole['ttft_median_error_ratio'])} %. On the {tools[0]['measurements']} that"
        f" aiconfigurator and AISimulate answer too: ours"
        f" {percent(tools[0]['tpot_median_error_ratio'])} and"
        f" {percent(tools[0]['ttft_median_error_ratio'])} %, theirs"
        f" {percent(theirs['tpot'][0])} to {percent(theirs['tpot'][-1])} and"
        f" {percent(theirs['ttft'][0])} to {percent(theirs['ttft'][-1])} %."
    )


def _choices_in_short() -> str:
    lost = {
        row["value"]: row
        for row in read("chosen_shapes")
        if row["part"] == "lost" and row["place"] == "SGLang on H200"
    }
    alone = sorted(row["mean_ratio"] for way, row in lost.items() if way.endswith("alone"))
    told = dict.fromkeys(percent(ratio) for ratio in (alone[0], alone[-1]))
    whole = lost["all accepted lengths"]
    fixed = min(row["mean_ratio"] for way, row in lost.items() if way.startswith("always"))
    return (
        f"The draft length that it chose for {whole['rows']} published setups of SGLang on H200"
        f" loses {' to '.join(told)} % against the best measured one"
        f" where the accepted length at one K was known, {percent(whole['mean_ratio'])} % where all"
        f" were; the best single K for all of them loses {percent(fixed)} %."
    )


def tables() -> Mapping[str, Any]:
    """What the page's tables hold, by the name that the page gives them."""
    shapes, numbers = read("chosen_shapes"), read("published_numbers")
    peers, kernels, own_loads = read("peers"), read("kernels"), loads()
    speedups = [row for row in shapes if row["part"] == "speedup"]
    worst_first = sorted(speedups, key=lambda row: -row["median_error_ratio"])
    off = "%median_error_ratio ±bias_ratio"
    own = f"place what configurations %median_error_ratio %p90_error_ratio ±bias_ratio {INSIDE}"
    developed = json.loads(PUBLISHED_ERRORS.read_text(encoding="utf-8"))["groups"]
    return {
        "in_short": in_short(),
        "unseen": read("unseen_serving"),
        "other_halves": [
            row for row in read("unseen_serving_other_halves") if row["slice"] in ("all", "serving")
        ],
        "peers": peers,
        "peer_rows": [
            cells(row, " ".join(["tool", *_times("%median_error %p90_error ±bias")]))
            for row in peers
        ],
        "lost_rows": [
            cells(row, "place value rows %mean_ratio %most_ratio")
            for row in shapes
            if row["part"] == "lost"
        ],
        "speedup_rows": [cells(row, f"place value rows {off}") for row in speedups],
        "wrong_shapes": [
            cells(row, f"place value rows {off}")
            for row in worst_first
            if row["median_error_ratio"] > WRONG["tpot"]
        ],
        "number_rows": [
            cells(row, "value rows predicted %median_error_ratio %p90_error_ratio ±bias_ratio")
            for row in numbers
            if row["part"] == "kind"
        ],
        "wrong_numbers": [
            cells(row, f"value rows {off} cause") for row in numbers if row["part"] == "over 30 %"
        ],
        "floor": next(row for row in numbers if row["part"] == "noise floor"),
        "vllm_rows": [
            cells(row, f"method rows %median_error_ratio %most_error_ratio ±bias_ratio {INSIDE}")
            for row in read("vllm_speedups")
        ],
        "kernel_rows": [cells(row, KERNELS) for row in kernels],
        "wrong_kernels": [
            cells(row, KERNELS) for row in kernels if row["median_error_ratio"] > WRONG["tpot"]
        ],
        "loss_rows": [cells(row, LOST) for row in read("trace_losses")],
        "own_rows": [
            cells(row, f"{own} %mean_regret_ratio %most_regret_ratio") for row in own_runs()
        ],
        "loads": own_loads,
        "load_rows": [cells(row, "name rate_per_s ±tpot ±ttft") for row in own_loads],
        "held_out": held_out(),
        "developed_rows": [
            [
                group["engine"] or "all",
                group["device"] or "all",
                group["runs"],
                *(cell for time in WRONG for cell in cells(group[time] or {}, DEVELOPED)),
            ]
            for group in developed
        ],
    }


def text() -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    functions: list[Callable[..., Any]] = [percent, signed, table, serving_table, wrong_serving]
    environment.globals.update({function.__name__: function for function in functions})
    return environment.get_template("page.md.j2").render(tables())


def main() -> int:
    """Write the page; with `--check`, 1 where it is not what the results say."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where it differs")
    if parser.parse_args().check:
        return int(PAGE.read_text(encoding="utf-8") != text())
    PAGE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
