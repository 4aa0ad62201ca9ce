"""How do `load` and `observe` say what a live server did?

Tables of waits, sentences of rates and acceptance. Leaves out the answers themselves
(`app.cli.verbs.live`).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOAD_TIMES = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "itl_s": "ITL",
    "e2e_s": "whole answer",
    "queue_s": "queue",
}
_STATED_TIMES = {**_LOAD_TIMES, "prompt_s_per_token": "prompt token"}


def named(server: "Mapping[str, Any]") -> str:
    """A server's model and engine in words; of a model that is a file, the file's name."""
    return f"{server['model'].rpartition('/')[2]} on {server['engine']}"


def say_acceptance(counts: "Mapping[str, Any] | None", file: Path | None) -> None:
    """Say what was drafted and accepted, where anything was.

    Args:
        counts: of a trace of level 0.
        file: where that trace lies; None: nowhere.
    """
    from app.answers.numbers import fixed
    from app.render.text import say

    if counts is None:
        return
    drafted = f" of {counts['draft_tokens']:,} drafted" if counts["draft_tokens"] else ""
    say(
        f"tokens per step {fixed(counts['tokens_per_step'], 3)}: {counts['accepted_tokens']:,}"
        f" accepted{drafted}"
    )
    if counts["acceptance_by_depth"]:
        rates = ", ".join(fixed(rate, 3) for rate in counts["acceptance_by_depth"][:32])
        say(f"accepted by position {rates}")
    by_batch = counts["tokens_per_step_by_batch"]
    if len(by_batch) > 1:
        say(
            "by running requests "
            + ", ".join(f"{batch:,}: {fixed(mean, 2)}" for batch, mean in by_batch[:16])
        )
    if file is not None:
        say(f"{file}: level {counts['level']}; optimize --trace {file} chooses by it")


def print_load(answer: "Mapping[str, Any]", out: Path) -> None:
    """Print what users saw under a load.

    Args:
        answer: as it goes out as JSON.
        out: folder with its files.
    """
    from app.answers.numbers import plain, time_unit
    from app.render.text import print_table, say

    found, server = answer["metrics"], answer["server"]
    shown = {
        name: found[key] for key, name in _LOAD_TIMES.items() if found[key]["mean"] is not None
    }
    unit = time_unit([times[level] for times in shown.values() for level in ("mean", "p99")])
    levels = ("mean", "p50", "p90", "p99")
    rows = [[name, *(unit.show(times[level]) for level in levels)] for name, times in shown.items()]
    print_table(named(server), [unit.name, *levels], rows)
    rates = f"{plain(found['tokens_per_s'])} tokens/s, {plain(found['requests_per_s'])} requests/s"
    say(
        f"{found['finished']:,} of {answer['requests']:,} requests in {plain(found['clock_s'])} s:"
        f" {rates}, {found['prompt_tokens']:,} prompt and {found['output_tokens']:,} output tokens"
    )
    say_acceptance(answer["acceptance"], out / "acceptance.parquet")
    late = found["sent_late_s"]["p99"]
    say(
        f"this client: {plain(answer['client_cpu_s'])} s of CPU time; requests sent"
        f" {plain(late * 1e3)} ms late (p99)"
    )
    for note in answer["notes"]:
        say(note)
    say(f"simulate --requests {out / 'requests.parquet'} plays the same load")


def print_observation(answer: "Mapping[str, Any]", out: Path | None) -> None:
    """Print what a server's counters said.

    Args:
        answer: as it goes out as JSON.
        out: file of its acceptance; None: nowhere.
    """
    from app.answers.numbers import plain, time_unit
    from app.render.text import print_table, say

    figures, server = answer["figures"], answer["server"]
    say(f"{named(server)}, {plain(answer['observed_s'])} s, {answer['scrapes']} scrapes")
    times = {name: figures[key] for key, name in _STATED_TIMES.items() if key in figures}
    if times:
        unit = time_unit([found["mean"] for found in times.values()])
        levels = ("mean", "p50", "p90", "p99")
        rows = [
            [name, *(unit.show(found.get(level)) for level in levels)]
            for name, found in times.items()
        ]
        print_table(
            "as the engine states it",
            [unit.name, *levels],
            rows,
            caption=_caption(server["engine"]),
        )
    for line in _lines(figures):
        say(line)
    say_acceptance(answer["acceptance"], out)
    for note in answer["notes"]:
        say(note)


def _caption(engine: str) -> str:
    if engine == "llama.cpp":
        return "means only: seconds over tokens; llama.cpp counts no time to the first token"
    return "percentiles are linear within the buckets of the engine's histograms"


def _lines(figures: "Mapping[str, Any]") -> list[str]:
    """What was counted, a sentence each."""
    from app.answers.numbers import plain

    lines = []
    if "running" in figures:
        waiting = figures.get("waiting", {"mean": None, "most": None})
        lines.append(
            f"running {plain(figures['running']['mean'])} on average,"
            f" {plain(figures['running']['most'])} at most; waiting {plain(waiting['mean'])} and"
            f" {plain(waiting['most'])}, at the moments of the scrapes"
        )
    if "steps" in figures:
        steps = figures["steps"]
        mean = steps.get("requests_per_step") or steps.get("tokens_per_step")
        what = "requests" if "requests_per_step" in steps else "tokens, prompts among them,"
        lines.append(f"{plain(steps['gained'])} steps of {plain(mean)} {what} on average")
    rates = [
        f"{plain(figures[key]['per_s'])} {name}/s"
        for key, name in (
            ("output_tokens", "output tokens"),
            ("prompt_tokens", "prompt tokens"),
            ("requests", "requests"),
        )
        if key in figures
    ]
    return [*lines, ", ".join(rates)] if rates else lines
