"""How does a live server stand a load: recorded requests, drawn arrivals, or users who wait for
their answers?

Every answer is on disk before the run goes on, whatever ends it: Ctrl-C and a server that dies
leave what was measured, and resuming sends what is missing. Where labels of a trace are given, the
steps of every answer are recorded too. Leaves out which requests
(`simulator.scenario.build.workload` draws them).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError, RooftreeError
from hardware_profiles.whole_file import make_folder, whole_file
from real_runs.recording.log import RecordingLog
from real_runs.servers.acceptance import acceptance_between
from real_runs.servers.client import Completion, StreamedAnswer
from real_runs.servers.counters import scrape
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import Server
from real_runs.servers.measured import proposal_share, row_of, summary_of, write_rows
from real_runs.servers.session import MOST_AT_ONCE, run_requests
from real_runs.servers.stepped_load import SteppedTrace, TraceLabels, step_columns, stepped_trace
from simulator.loop.request import Workload
from traces.importers.scrapes import Scrape
from traces.kinds.acceptance import AcceptanceTrace
from traces.storage.acceptance_file import write_acceptance

PART, ROWS, ACCEPTANCE = "answers.part.jsonl", "requests.parquet", "acceptance.parquet"
SCRAPES = ("counters-before.txt", "counters-after.txt")
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class SentLoad:
    """What is sent where.

    Attributes:
        server: from `identify`.
        workload: times or users, and lengths.
        prompts: one per request, text or token ids.
        out: folder for the answers.
        ignore_eos: generate all tokens that a request asks for.
        temperature: of sampling; 0 is greedy.
        options: further keys of every request's JSON.
        most_at_once: requests under way at a time.
        patience: how long to wait.
        resume: go on with a folder that holds a part of the answers.
        labels: of a trace of the steps that answers took; None: none is recorded.
    """

    server: Server
    workload: Workload
    prompts: Sequence[str | tuple[int, ...]]
    out: Path
    ignore_eos: bool = True
    temperature: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    most_at_once: int = MOST_AT_ONCE
    patience: Patience = field(default_factory=Patience)
    resume: bool = False
    labels: TraceLabels | None = None

    def __post_init__(self) -> None:
        longest = self.workload.prompt_tokens.astype(np.int64) + self.workload.output_tokens
        if self.server.context is not None and longest.max() > self.server.context:
            rule = (
                f"a request of the server holds at most {self.server.context} tokens, prompt and"
                " output"
            )
            raise InputError(rule, key=f"request {int(longest.argmax())}", value=int(longest.max()))

    @property
    def completions(self) -> list[Completion]:
        """Every request of the load."""
        return [
            Completion(
                prompt=prompt,
                max_tokens=tokens,
                ignore_eos=self.ignore_eos,
                temperature=self.temperature,
                options=self.options,
                marks=self.labels is not None,
            )
            for prompt, tokens in zip(
                self.prompts, self.workload.output_tokens.tolist(), strict=True
            )
        ]

    @property
    def setup(self) -> dict[str, Any]:
        """What answers of one run have in common, as JSON values."""
        w = self.workload
        sent = {
            "prompts": list(self.prompts),
            "output_tokens": w.output_tokens.tolist(),
            "users": w.users,
            "arrival_s": w.arrival_s.tolist(),
            "think_s": np.asarray(w.think_s).tolist(),
            "temperature": self.temperature,
            "ignore_eos": self.ignore_eos,
            "options": dict(self.options),
        }
        if self.labels is not None:
            sent["names"] = list(self.labels.names)
        digest = hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()
        return {
            "kind": "load" if self.labels is None else "load with steps",
            "engine": self.server.kind,
            "model": self.server.model,
            "requests_sha256": digest,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadResult:
    """What came of a load.

    Attributes:
        summary: rates and percentiles of what was answered.
        requests: requests of the load.
        resumed: of the answers, those of earlier runs.
        errors: why requests failed, and how many each.
        short: answers with another number of tokens than was asked for.
        cpu_s: CPU time of this process while it sent.
        trace: acceptance between the counters before and after the last run, other users' requests
            among them; None where there are no such counters or nothing was drafted. Where steps
            were recorded, their trace.
        steps: how far that trace goes; None where no steps were recorded.
    """

    summary: Mapping[str, Any]
    requests: int
    resumed: int
    errors: Mapping[str, int]
    short: int
    cpu_s: float
    trace: AcceptanceTrace | None = None
    steps: SteppedTrace | None = None


def run_load(load: SentLoad, tell: Tell = lambda what, done, total: None) -> LoadResult:
    """Send what is not answered yet; write `requests.parquet`, the counters before and after, and
    acceptance by them.

    Args:
        load: what is sent where.
        tell: called with what is done, requests answered, and all of them.

    Raises:
        InputError: another run lies in the folder, the server is lost, no request was answered, or
            steps were to be recorded and nothing was drafted.
        KeyboardInterrupt: Ctrl-C. In both cases what was answered until then is written, and can be
            resumed.
    """
    make_folder(load.out)
    if (load.out / ROWS).exists() and not (load.out / PART).exists():
        raise InputError(
            "holds a load that is finished: choose another folder", file=load.out, key="out"
        )
    with RecordingLog(load.out / PART, load.setup, resume=load.resume) as log:
        resumed = len(log.finished)
        errors: Counter[str] = Counter()
        cpu_s = time.process_time()
        try:
            for stale in (SCRAPES[1], ACCEPTANCE):
                (load.out / stale).unlink(missing_ok=True)
            _write_counters(
                load, SCRAPES[0]
            )  # again when resumed: the engine may be another one by now
            _send(load, log, errors, tell)
            _write_counters(load, SCRAPES[1])
        finally:
            cpu_s = time.process_time() - cpu_s
            rows = list(log.finished)
            if rows:
                _write(load, rows)
        if not rows:
            raise InputError(
                "no request was answered: " + "; ".join(errors)[:500], key=str(load.server.address)
            )
        trace, steps = _counted(load), None
        if load.labels is not None:
            steps = stepped_trace(
                load.server,
                rows,
                load.labels,
                sampling={"temperature": load.temperature},
                counted=trace,
                first_counted=resumed,
                is_alone=not errors,
            )
            trace = steps.trace
        elif trace is not None and trace.summary is not None and trace.match_rate is None:
            trace = replace(trace, match_rate=proposal_share(rows, trace.summary))
        if trace is not None:
            write_acceptance(trace, load.out / ACCEPTANCE)
        if len(rows) == load.workload.requests:
            log.remove()
    wanted = load.workload.output_tokens
    return LoadResult(
        summary=summary_of(rows),
        requests=load.workload.requests,
        resumed=resumed,
        errors=dict(errors),
        short=sum(row["output_tokens"] != wanted[row["request"]] for row in rows),
        cpu_s=cpu_s,
        trace=trace,
        steps=steps,
    )


def _send(load: SentLoad, log: RecordingLog, errors: Counter[str], tell: Tell) -> None:
    """Send what is missing; rows go to the disk in a thread of their own, so that no stream waits
    for it.
    """
    before = {row["request"]: row for row in log.finished}
    missing = [index for index in range(load.workload.requests) if index not in before]
    if not missing:
        return
    completions, arrivals = load.completions, load.workload.arrival_s[missing]
    gone_s = max((row["last_token_s"] or row["arrival_s"] for row in before.values()), default=0.0)
    written: list[Future[None]] = []
    with ThreadPoolExecutor(max_workers=1) as writer:
        origin_s = time.monotonic() - gone_s

        def keep(position: int, answer: StreamedAnswer) -> None:
            if answer.error is None:
                row = row_of(missing[position], answer, origin_s)
                if load.labels is not None:
                    row |= step_columns(answer)
                written.append(writer.submit(log.append, row))
            else:
                errors[answer.error] += 1

        run_requests(
            load.server,
            [completions[index] for index in missing],
            users=load.workload.users,
            arrivals_s=(
                None
                if load.workload.users
                else (arrivals - (arrivals[0] if before else 0.0)).tolist()
            ),
            think_s=np.broadcast_to(load.workload.think_s, load.workload.requests).tolist(),
            most_at_once=load.most_at_once,
            patience=load.patience,
            tell=lambda answered, under_way: tell(
                f"{under_way} under way", len(before) + answered, load.workload.requests
            ),
            on_answer=keep,
        )
    for writing in written:
        writing.result()


def _write(load: SentLoad, rows: list[dict[str, Any]]) -> None:
    notes = (
        f"Measured on {load.server.kind} by rooftree load: {len(rows)} of {load.workload.requests}"
        " requests."
    )
    write_rows(rows, load.out / ROWS, model=load.server.model, engine=load.server.kind, notes=notes)


def _write_counters(load: SentLoad, name: str) -> None:
    """Keep the engine's counters where it publishes some: acceptance and batches are read from
    them.
    """
    with suppress(RooftreeError):
        text = scrape(load.server, patience=load.patience).text
        with whole_file(load.out / name) as part:
            part.write_text(text, encoding="utf-8")


def _counted(load: SentLoad) -> AcceptanceTrace | None:
    """What the engine's counters before and after say of drafts."""
    files = [load.out / name for name in SCRAPES]
    if not all(file.exists() for file in files):
        return None
    texts = [file.read_text(encoding="utf-8") for file in files]
    trace, _ = acceptance_between(load.server, [Scrape(at_s=0.0, text=text) for text in texts])
    return trace
