"""`load`: send requests to a live server and measure what its users see."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import Json, Quiet, Seed
from app.cli.output import Answered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from real_runs.servers.identify import Server
    from real_runs.servers.load import LoadResult

Url = Annotated[str, typer.Argument(help="Address of the server, such as http://127.0.0.1:8080.")]
Served = Annotated[str | None, typer.Option("--model", help="Which model, where the server has several.")]
KeyEnv = Annotated[
    str | None, typer.Option("--key-env", help="Environment variable with the key that the server asks for.")
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds of silence after which an answer counts as lost.")
]
_SHOWN = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "whole answer", "queue_s": "queue"}


def load(
    url: Url,
    out: Annotated[Path, typer.Option("--out", help="Folder for the answers; unfinished work is kept there too.")],
    requests: Annotated[
        Path | None,
        typer.Option("--requests", help="Recorded requests: request trace, or a file that `traces import` knows."),
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Mean requests per second, Poisson arrivals.")] = None,
    users: Annotated[int | None, typer.Option("--users", help="Closed loop: users, each with one request.")] = None,
    count: Annotated[int | None, typer.Option("--count", help="Requests; default: all of the file.")] = None,
    duration: Annotated[
        str | None, typer.Option("--duration", help="With --rate in place of --count: a time such as 60s or 5m.")
    ] = None,
    prompt_tokens: Annotated[
        str | None,
        typer.Option(
            "--prompt-tokens",
            help="Without a file: N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEAN:VARIATION.",
        ),
    ] = None,
    output_tokens: Annotated[
        str | None, typer.Option("--output-tokens", help="Tokens to generate, in the same forms.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            help="TOML of a title and [[prompts]], each with id, kind and text: sent as they are, or, with lengths, "
            "the text that passages are taken from. Default: passages of the shipped set.",
        ),
    ] = None,
    assigned: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any key of a scenario's requests: requests.think_s=2 (see `simulate`). Repeatable."
        ),
    ] = None,
    model: Served = None,
    key_env: KeyEnv = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="Further key of every request, KEY=JSON: cache_prompt=false. Repeatable."),
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="0 is greedy.")] = 0.0,
    stop_at_eos: Annotated[
        bool, typer.Option("--stop-at-eos", help="Let the model end an answer before all its tokens are generated.")
    ] = False,
    most_at_once: Annotated[int, typer.Option("--most-at-once", min=1, help="Requests under way at a time.")] = 1000,
    timeout: Timeout = 300.0,
    resume: Annotated[bool, typer.Option("--resume", help="Send only what is missing in the folder.")] = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Send a load to a live server (vLLM, SGLang, TensorRT-LLM, llama.cpp) and measure TTFT, TPOT and throughput.

    The folder gets requests.parquet, which `simulate --requests` plays, load.json, and, where the engine has counters,
    those before and after and acceptance.parquet, which `--trace` takes.

    Example: rooftree load http://127.0.0.1:8080 --rate 2 --count 200 --prompt-tokens 256 --output-tokens 128 --out run
    """
    from app.cli.output import deliver, require_folder
    from app.cli.progress import counting
    from app.cli.verbs.live.traffic import drawn_workload, prompts_of, request_count, request_options
    from hardware_profiles.errors import InputError
    from real_runs.servers.address import Address
    from real_runs.servers.exchange import Patience
    from real_runs.servers.identify import identify
    from real_runs.servers.load import Load, run_load

    require_folder(out)
    named = {
        "requests.file": None if requests is None else str(requests), "requests.rate_per_s": rate,
        "requests.users": users, "requests.count": request_count(count, rate, duration),
        "requests.prompt_tokens": prompt_tokens, "requests.output_tokens": output_tokens,
    }  # fmt: skip
    patience = Patience(silence_s=timeout)
    further = request_options(option)
    whole = prompts is not None and prompt_tokens is None and requests is None
    workload, assumed = drawn_workload(named, assigned, prompts if whole else None, seed)
    server = identify(Address.parse(url).with_key_of(key_env), model=model, patience=patience)
    sent, note = prompts_of(server, workload, prompts, seed, patience, whole=whole)
    loaded = Load(
        server=server, workload=workload, prompts=sent, out=out, ignore_eos=not stop_at_eos, temperature=temperature,
        options=further, most_at_once=most_at_once, patience=patience, resume=resume,
    )  # fmt: skip
    with counting(quiet) as report:
        result = run_load(loaded, report)
    inputs = {
        "url": str(server.address), **{name.partition(".")[2]: value for name, value in named.items()},
        "prompts": prompts, "set": assigned, "option": further, "temperature": temperature,
        "stop_at_eos": stop_at_eos, "most_at_once": most_at_once, "timeout_s": timeout, "seed": seed,
    }  # fmt: skip
    answer = _answer(inputs, server, result, [text for text in (assumed, note) if text])
    answered = deliver(answer, name="load", json=json, out=out, quiet=quiet, show=lambda: _show(answer, out))
    if result.errors:
        failed = sum(result.errors.values())
        message = f"{failed} of {result.asked} requests failed ({next(iter(result.errors))}); --resume sends them again"
        raise InputError(message, key=str(server.address))
    return answered


def _answer(
    inputs: "Mapping[str, Any]", server: "Server", result: "LoadResult", notes: list[str]
) -> dict[str, Any]:  # fmt: skip
    from app.cli.verbs.traces_import import counts_of

    if result.short:
        notes = [*notes, f"{result.short} answers have another number of tokens than was asked for"]
    if result.resumed:
        notes = [*notes, f"{result.resumed} of the answers are of earlier runs; the time between runs is left out"]
    return {
        "inputs": inputs,
        "server": {
            "engine": server.kind, "model": server.model, "slots": server.slots, "context": server.context,
        },
        "metrics": result.summary, "requests": result.asked, "failed": sum(result.errors.values()),
        "acceptance": None if result.trace is None else {"level": result.trace.level, **counts_of(result.trace)},
        "errors": result.errors, "client_cpu_s": result.cpu_s, "notes": notes,
    }  # fmt: skip


def named(server: "Mapping[str, Any]") -> str:
    """A server's model and engine in words; of a model that is a file, the file's name."""
    return f"{server['model'].rpartition('/')[2]} on {server['engine']}"


def say_acceptance(counts: "Mapping[str, Any] | None", file: Path | None) -> None:
    """Say what was drafted and accepted, where anything was.

    Args:
        counts: of a trace of level 0.
        file: where that trace lies; None: nowhere.
    """
    from app.cli.formatting import fixed
    from app.cli.output import say

    if counts is None:
        return
    drafted = f" of {counts['draft_tokens']:,} drafted" if counts["draft_tokens"] else ""
    say(f"tokens per step {fixed(counts['tokens_per_step'], 3)}: {counts['accepted_tokens']:,} accepted{drafted}")
    if counts["acceptance_by_depth"]:
        rates = ", ".join(fixed(rate, 3) for rate in counts["acceptance_by_depth"][:32])
        say(f"accepted by position {rates}")
    by_batch = counts["tokens_per_step_by_batch"]
    if len(by_batch) > 1:
        say("by running requests " + ", ".join(f"{batch:,}: {fixed(mean, 2)}" for batch, mean in by_batch[:16]))
    if file is not None:
        say(f"{file}: level {counts['level']}; optimize --trace {file} chooses by it")


def _show(answer: "Mapping[str, Any]", out: Path) -> None:
    from app.cli.formatting import plain, time_unit
    from app.cli.output import print_table, say

    found, server = answer["metrics"], answer["server"]
    shown = {name: found[key] for key, name in _SHOWN.items() if found[key]["mean"] is not None}
    unit = time_unit([times[level] for times in shown.values() for level in ("mean", "p99")])
    levels = ("mean", "p50", "p90", "p99")
    rows = [[name, *(unit.show(times[level]) for level in levels)] for name, times in shown.items()]
    print_table(named(server), [unit.name, *levels], rows)
    rates = f"{plain(found['tokens_per_s'])} tokens/s, {plain(found['requests_per_s'])} requests/s"
    say(
        f"{found['finished']:,} of {answer['requests']:,} requests in {plain(found['clock_s'])} s: {rates}, "
        f"{found['prompt_tokens']:,} prompt and {found['output_tokens']:,} output tokens"
    )
    say_acceptance(answer["acceptance"], out / "acceptance.parquet")
    late = found["sent_late_s"]["p99"]
    say(f"this client: {plain(answer['client_cpu_s'])} s of CPU time; requests sent {plain(late * 1e3)} ms late (p99)")
    for note in answer["notes"]:
        say(note)
    say(f"simulate --requests {out / 'requests.parquet'} plays the same load")
