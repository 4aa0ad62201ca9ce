"""What would llama.cpp's drafters have proposed at every position of the answers that its server
gave?

An n-gram drafter is computed from the text alone; a draft model is asked for its next token after
every position of it, through a server of its own. Leaves out the asking (`answers`) and drafters
whose state depends on what was drafted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from real_runs.drafters.prompt_lookup import LookupLengths
from real_runs.prompt_set import PromptSet
from real_runs.servers.address import Address
from real_runs.servers.llama_cpp.answers import (
    Answers,
    ServerAnswer,
    Tell,
    ask,
    next_token,
    record_answers,
)
from real_runs.servers.llama_cpp.ngram_simple import ngram_simple_lengths
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import Provenance
from traces.storage.acceptance_file import write_acceptance


def record_server(
    address: Address,
    prompts: PromptSet,
    *,
    out: Path,
    lookups: Sequence[tuple[int, int]] = (),
    draft: Address | None = None,
    max_new_tokens: int = 160,
    ignore_eos: bool = False,
    device: str = "",
    tell: Tell = lambda done, total: None,
) -> tuple[Path, ...]:
    """Record greedy answers of a server, and write one trace per drafter.

    Safe to stop: answers are kept in a part file in `out`, and the next call with the same setup
    goes on after them.

    Args:
        address: a server of llama.cpp that decodes plainly, or drafts without changing the text.
        prompts: what is asked.
        out: folder of the traces and of the part file.
        lookups: (size_n, size_m) of every `ngram-simple` that a trace is wanted of.
        draft: a server of the draft model alone; None: no such trace.
        max_new_tokens: longest answer.
        ignore_eos: answers are all of that length.
        device: what the server runs on, for the trace.
        tell: called with the finished pieces of work and their number.

    Returns:
        The traces: those of `lookups` in their order, then the draft model's.

    Raises:
        InputError: as of `record_answers`, or a size below 1.
    """
    total = len(prompts.prompts) * (1 if draft is None else 2)
    answers = record_answers(
        address,
        prompts,
        out=out,
        max_new_tokens=max_new_tokens,
        ignore_eos=ignore_eos,
        tell=lambda done, _: tell(done, total),
    )
    name, files = answers.setup["name"], []
    for size_n, size_m in lookups:
        files.append(out / f"{name}--ngram-simple-{size_n}-{size_m}--greedy.parquet")
        write_acceptance(
            lookup_trace(answers, size_n=size_n, size_m=size_m, device=device), files[-1]
        )
    if draft is not None:
        trace = draft_trace(
            answers, draft, device=device, tell=lambda done, of: tell(total - of + done, total)
        )
        files.append(out / f"{name}--draft-model--greedy.parquet")
        write_acceptance(trace, files[-1])
    return tuple(files)


def lookup_trace(
    answers: Answers, *, size_n: int, size_m: int, device: str = ""
) -> AcceptanceTrace:
    """What `ngram-simple` would have drafted at every position of answers.

    Args:
        answers: from `record_answers`.
        size_n: tokens that are looked up.
        size_m: longest draft.
        device: what the server ran on.

    Raises:
        InputError: a size below 1.
    """
    limits = {"most_tokens": answers.setup["max_new_tokens"], "context": answers.setup["context"]}

    def lengths(answer: ServerAnswer) -> LookupLengths:
        return ngram_simple_lengths(
            answer.prompt, answer.output, size_n=size_n, size_m=size_m, **limits
        )

    chains = [lengths(answer) for answer in answers.requests]
    # a shorter text is not drafted for at all, and for fewer draft tokens it need not be as long
    short = sum(len(answer.prompt) <= size_n + size_m + 1 for answer in answers.requests)
    notes = (
        f"Exact for drafts of {size_n} to {size_m} tokens; the engine drafts no fewer than it"
        " looks up."
    )
    provenance = _provenance(
        answers,
        f"llama.cpp's ngram-simple, {size_n} tokens looked up, drafts of up to {size_m}",
        "n-gram",
        device,
        (
            f"{notes} {short} prompts are too short for it: there, {size_m} alone is exact."
            if short
            else notes
        ),
        {"parameters": {"size_n": size_n, "size_m": size_m}},
    )
    return _trace(
        answers,
        provenance,
        emitted=np.concatenate([chain.emitted for chain in chains]),
        drafted=np.concatenate([chain.drafted for chain in chains]),
    )


def draft_trace(
    answers: Answers, draft: Address, *, device: str = "", tell: Tell = lambda done, total: None
) -> AcceptanceTrace:
    """Where a draft model's likeliest token is the one that the answers go on with.

    The model reads true tokens at every depth, so one question per position is enough for every
    draft length. Its server reads the text in other portions than a draft does: a near tie may
    round the other way.

    Args:
        answers: from `record_answers`.
        draft: a server of the draft model alone, of the same vocabulary.
        device: what the servers ran on.
        tell: called with the answers that were gone through and their number.

    Raises:
        InputError: not reachable, or it answers something else.
    """
    # loads torch, which answers and lookups do not need
    from real_runs.drafters.early_exit import chain_lengths

    file = (
        str(ask(draft, "/props").get("model_path", ""))[:300].replace("\\", "/").rpartition("/")[2]
    )
    ranks = []
    for done, answer in enumerate(answers.requests, start=1):
        text = [*answer.prompt, *answer.output]
        start = len(answer.prompt)
        hits = [next_token(draft, text[:end]) == text[end] for end in range(start, len(text))]
        ranks.append(np.where(hits, 0, -1).astype(np.int8))
        tell(done, len(answers.requests))
    provenance = _provenance(
        answers,
        f"draft model {file}",
        "speculative-decoding",
        device,
        "Exact at any draft length: the draft model reads true tokens at every depth. Its first"
        " candidate alone was recorded.",
        {"draft_file": file},
    )
    return _trace(
        answers,
        provenance,
        emitted=np.concatenate([chain_lengths(request_ranks) for request_ranks in ranks]),
        rank=np.concatenate(ranks),
        rank_width=1,
        depth_invariant=True,
    )


def _provenance(
    answers: Answers, drafter: str, method: str, device: str, notes: str, extra: Mapping[str, Any]
) -> Provenance:
    setup = answers.setup
    length = (
        "all of max_new_tokens"
        if setup["ignore_eos"]
        else "at an end-of-text token or at max_new_tokens"
    )
    return Provenance(
        model=setup["model_file"].removesuffix(".gguf"),
        drafter=drafter,
        method=method,
        device=device,
        dtype=setup["dtype"],
        sampling={"temperature": 0.0, "max_new_tokens": setup["max_new_tokens"]},
        dataset=setup["dataset"],
        dataset_sha256=setup["dataset_sha256"],
        recorder_version=setup["recorder"],
        notes=(
            f"{notes} Text of llama.cpp's server, greedy, one request at a time, {length}. The"
            " prompt's pass emits position 0."
        ),
        extra={
            "engine": "llama.cpp",
            "build": setup["build"],
            "context": setup["context"],
            **extra,
        },
    )


def _trace(answers: Answers, provenance: Provenance, **arrays: Any) -> AcceptanceTrace:
    return AcceptanceTrace(
        provenance=provenance,
        request_ids=tuple(one.request for one in answers.requests),
        prompt_kinds=tuple(one.kind for one in answers.requests),
        prompt_tokens=np.array([len(one.prompt) for one in answers.requests], dtype=np.int32),
        offsets=np.cumsum([0, *(len(one.output) for one in answers.requests)], dtype=np.int64),
        first_step_position=1,
        extra_columns={
            "ended": [one.ended for one in answers.requests],
            "server_drafted": [one.drafted for one in answers.requests],
            "server_accepted": [one.accepted for one in answers.requests],
        },
        **arrays,
    )
