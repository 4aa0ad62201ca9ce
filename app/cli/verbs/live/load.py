"""`load`: send requests to a live server and measure what its users see."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.questions.field import Field, Group
from app.questions.fields import Json, Quiet, Seed
from app.questions.groups import RequestOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from real_runs.servers.identify import Server
    from real_runs.servers.load import LoadResult

Url = Annotated[
    str,
    Field("Address of the server, such as http://127.0.0.1:8080.", Group.WORKLOAD, argument=True),
]
Served = Annotated[str | None, Field("Which model, where the server has several.", Group.WORKLOAD)]
KeyEnv = Annotated[
    str | None,
    Field("Environment variable with the key that the server asks for.", Group.HARDWARE),
]
Timeout = Annotated[
    float,
    Field("Seconds of silence after which an answer counts as lost.", Group.RUN, least=0.1),
]


def load(
    url: Url,
    out: Annotated[
        Path,
        Field("Folder for the answers; unfinished work is kept there too.", Group.OUTPUT),
    ],
    asked: RequestOptions,
    duration: Annotated[
        str | None,
        Field("With --rate in place of --count: a time such as 60s or 5m.", Group.WORKLOAD),
    ] = None,
    prompts: Annotated[
        Path | None,
        Field(
            (
                "TOML of a title and [[prompts]], each with id, kind and text: sent as they are,"
                " or, with lengths, "
                "the text that passages are taken from. Default: passages of the shipped set."
            ),
            Group.WORKLOAD,
        ),
    ] = None,
    assigned: Annotated[
        list[str] | None,
        Field(
            "Any key of a scenario's requests: requests.think_s=2 (see `simulate`). Repeatable.",
            Group.HARDWARE,
            spelled="--set",
        ),
    ] = None,
    model: Served = None,
    key_env: KeyEnv = None,
    option: Annotated[
        list[str] | None,
        Field(
            "Further key of every request, KEY=JSON: cache_prompt=false. Repeatable.",
            Group.WORKLOAD,
        ),
    ] = None,
    temperature: Annotated[float, Field("0 is greedy.", Group.WORKLOAD, least=0.0)] = 0.0,
    stop_at_eos: Annotated[
        bool,
        Field("Let the model end an answer before all its tokens are generated.", Group.WORKLOAD),
    ] = False,
    most_at_once: Annotated[int, Field("Requests under way at a time.", Group.RUN, least=1)] = 1000,
    timeout: Timeout = 300.0,
    resume: Annotated[bool, Field("Send only what is missing in the folder.", Group.RUN)] = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Send a load to a live server (vLLM, SGLang, TensorRT-LLM, llama.cpp) and measure TTFT, TPOT
    and throughput.

    The folder gets requests.parquet, which `simulate --requests` plays, load.json, and, where the
    engine has counters, those before and after and acceptance.parquet, which `--trace` takes.

    Example: rooftree load http://127.0.0.1:8080 --rate 2 --count 200 --prompt-tokens 256
    --output-tokens 128 --out run
    """
    from app.answers.progress import counting
    from app.cli.output import deliver
    from app.cli.shown.live import print_load
    from app.cli.verbs.live.traffic import (
        drawn_workload,
        prompts_of,
        request_count,
        request_options,
    )
    from app.questions.places import require_folder
    from hardware_profiles.errors import InputError
    from real_runs.servers.address import Address
    from real_runs.servers.exchange import Patience
    from real_runs.servers.identify import identify
    from real_runs.servers.load import SentLoad, run_load

    require_folder(out)
    named = asked.named | {"requests.count": request_count(asked.count, asked.rate, duration)}
    patience = Patience(silence_s=timeout)
    further = request_options(option)
    whole = prompts is not None and asked.prompt_tokens is None and asked.requests is None
    workload, assumed = drawn_workload(named, assigned, prompts if whole else None, seed)
    server = identify(Address.parse(url).with_key_of(key_env), model=model, patience=patience)
    sent, note = prompts_of(server, workload, prompts, seed, patience, whole=whole)
    loaded = SentLoad(
        server=server,
        workload=workload,
        prompts=sent,
        out=out,
        ignore_eos=not stop_at_eos,
        temperature=temperature,
        options=further,
        most_at_once=most_at_once,
        patience=patience,
        resume=resume,
    )
    with counting(quiet) as report:
        result = run_load(loaded, report)
    inputs = {
        "url": str(server.address),
        **{name.partition(".")[2]: value for name, value in named.items()},
        "prompts": prompts,
        "set": assigned,
        "option": further,
        "temperature": temperature,
        "stop_at_eos": stop_at_eos,
        "most_at_once": most_at_once,
        "timeout_s": timeout,
        "seed": seed,
    }
    answer = _answer(inputs, server, result, [text for text in (assumed, note) if text])
    answered = deliver(
        answer, name="load", json=json, out=out, quiet=quiet, show=lambda: print_load(answer, out)
    )
    if result.errors:
        failed = sum(result.errors.values())
        message = (
            f"{failed} of {result.asked} requests failed ({next(iter(result.errors))}); --resume"
            " sends them again"
        )
        raise InputError(message, key=str(server.address))
    return answered


def _answer(
    inputs: "Mapping[str, Any]", server: "Server", result: "LoadResult", notes: list[str]
) -> dict[str, Any]:
    from app.answers.recordings.counts import traced_acceptance

    if result.short:
        notes = [*notes, f"{result.short} answers have another number of tokens than was asked for"]
    if result.resumed:
        earlier = (
            f"{result.resumed} of the answers are of earlier runs, whose acceptance is not in the"
            " counters"
        )
        notes = [*notes, f"{earlier}; the time between runs is left out"]
    return {
        "inputs": inputs,
        "server": {
            "engine": server.kind,
            "model": server.model,
            "slots": server.slots,
            "context": server.context,
        },
        "metrics": result.summary,
        "requests": result.asked,
        "failed": sum(result.errors.values()),
        "acceptance": None if result.trace is None else traced_acceptance(result.trace),
        "errors": result.errors,
        "client_cpu_s": result.cpu_s,
        "notes": notes,
    }
