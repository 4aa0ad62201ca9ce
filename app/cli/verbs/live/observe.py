"""`observe`: what a live server's own counters say about its speculation, its batches and its
users' waits.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.cli.verbs.live.load import KeyEnv, Served, Url
from app.questions.field import Field, Group
from app.questions.fields import Json, Quiet, Seed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from real_runs.servers.observe import Observation


def observe(
    url: Url,
    for_: Annotated[
        str,
        Field(
            "How long, such as 60s, 5m or 1h; Ctrl-C ends it earlier.", Group.RUN, spelled="--for"
        ),
    ] = "60s",
    every: Annotated[str, Field("Between two scrapes of the counters.", Group.RUN)] = "5s",
    out: Annotated[
        Path | None,
        Field("Parquet file for the acceptance, a trace of level 0.", Group.OUTPUT),
    ] = None,
    model: Served = None,
    key_env: KeyEnv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Watch a live server (vLLM, SGLang, TensorRT-LLM, llama.cpp) by its own counters; no request
    is sent.

    Example: rooftree observe http://127.0.0.1:8000 --for 60s --out acceptance.parquet
    """
    from app.cli.output import deliver
    from app.cli.progress import progress_line
    from app.cli.shown.live import print_observation
    from app.questions.places import require_file
    from app.questions.values import seconds
    from hardware_profiles.errors import InputError
    from real_runs.servers.address import Address
    from real_runs.servers.identify import identify
    from real_runs.servers.observe import observe as watch

    if out is not None:
        require_file(out)
    for_s, every_s = seconds(for_, "--for"), seconds(every, "--every")
    server = identify(Address.parse(url).with_key_of(key_env), model=model)
    with progress_line(quiet) as tell:
        found = watch(
            server,
            for_s=for_s,
            every_s=every_s,
            model=model,
            tell=lambda elapsed_s: tell(f"observed {elapsed_s:.0f} of {for_s:.0f} s"),
        )
    answer = _answer(
        found,
        {
            "url": str(server.address),
            "for_s": for_s,
            "every_s": every_s,
            "model": model,
            "seed": seed,
        },
    )
    if out is not None and found.trace is not None:
        from hardware_profiles.whole_file import make_folder
        from traces.storage.acceptance_file import write_acceptance

        make_folder(out.parent)
        write_acceptance(found.trace, out)
    answered = deliver(
        answer,
        name="",
        json=json,
        out=None,
        quiet=quiet,
        show=lambda: print_observation(answer, out),
    )
    if found.ended and "Ctrl-C" not in found.ended:
        raise InputError(
            f"observed for {found.seconds:.0f} of {for_s:.0f} s: {found.ended}",
            key=str(server.address),
        )
    if out is not None and found.trace is None:
        raise InputError(f"no trace is written: {found.no_trace}", key="--out", value=str(out))
    return answered


def _answer(observation: "Observation", inputs: "Mapping[str, Any]") -> dict[str, Any]:
    from app.answers.recordings.counts import traced_acceptance

    server, trace = observation.server, observation.trace
    return {
        "inputs": inputs,
        "server": {
            "engine": server.kind,
            "model": server.model,
            "slots": server.slots,
            "context": server.context,
        },
        "observed_s": observation.seconds,
        "scrapes": observation.scrapes,
        "ended": observation.ended,
        "figures": observation.figures,
        "acceptance": None if trace is None else traced_acceptance(trace),
        "notes": [observation.no_trace if trace is None else trace.provenance.notes],
    }
