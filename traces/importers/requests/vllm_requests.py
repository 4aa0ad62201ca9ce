"""How are the requests of a vLLM run read?

Format `vllm-requests`: a table with `arrival_s`, `input_tokens`, `output_tokens` and, where prompts
share blocks of N tokens, `prefix_blockN_ids`, where some go first, `priority`; or the result file
of `vllm bench serve --save-result --save-detailed` (`input_lens`, `output_lens`, and `start_times`
where the version writes them). Leaves out what the server measured.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.files import expect_list, expect_object, parse_json, read_text
from traces.importers.recognition import Format, Sample
from traces.importers.request_tables import (
    ArrivalColumn,
    RequestTable,
    block_column,
    read_table,
    request_trace,
    time_column,
    whole_column,
)
from traces.kinds.acceptance import RequestTrace

_SOURCE = "a run of a vLLM server"
_TABLE = RequestTable(
    source=_SOURCE,
    arrival=(ArrivalColumn(name="arrival_s"),),
    prompt_tokens=("input_tokens", "prompt_tokens"),
    output_tokens=("output_tokens",),
    priority=("priority",),
)


def read(path: str | Path) -> RequestTrace:
    """Read the requests of a vLLM run.

    Args:
        path: a table, or a benchmark's result file (`.json`).

    Returns:
        Requests in order of arrival; a result file's since the first of them.

    Raises:
        InputError: anything that is not as described; a table's arrivals must be sorted.
    """
    return _result(path) if Path(path).suffix.casefold() == ".json" else _table(path)


def _table(path: str | Path) -> RequestTrace:
    blocks = block_column(path) if Path(path).suffix.casefold() == ".parquet" else None
    if blocks is None:
        return read_table(path, _TABLE)
    name, tokens = blocks
    return read_table(path, replace(_TABLE, prefix_blocks=(name,), block_tokens=tokens))


def _result(path: str | Path) -> RequestTrace:
    file = str(path)
    document = expect_object(parse_json(read_text(path), file), file, "document")
    prompts = whole_column(
        expect_list(document.get("input_lens"), file, "input_lens"), file, "input_lens"
    )
    outputs = whole_column(
        expect_list(document.get("output_lens"), file, "output_lens"), file, "output_lens"
    )
    if prompts.size != outputs.size:
        raise InputError(
            "must be as long as input_lens", file=file, key="output_lens", value=outputs.size
        )
    starts = document.get("start_times")
    order, arrival = np.arange(prompts.size), None
    if starts is not None:
        sent = [
            float(s) for s in expect_list(starts, file, "start_times") if type(s) in (int, float)
        ]
        if len(sent) != prompts.size:
            rule = "must hold one number per request"
            raise InputError(rule, file=file, key="start_times", value=len(sent))
        # answers are listed in the order of their prompts, which need not be that of their sending
        order = np.argsort(sent, kind="stable")
        times = time_column(np.asarray(sent)[order], file, "start_times")
        arrival = times - times[0]
    return request_trace(
        file,
        arrival_s=arrival,
        prompt_tokens=prompts[order],
        output_tokens=outputs[order],
        source=_SOURCE,
    )


def _claims(sample: Sample) -> bool:
    """A table with arrivals whose prompts share no blocks of Mooncake's size, or a result file
    without acceptance.
    """
    if sample.columns:
        return (
            "arrival_s" in sample.columns
            and "output_tokens" in sample.columns
            and ("prefix_block512_ids" not in sample.columns)
        )
    return sample.holds("input_lens", "output_lens") and not any(
        key.startswith("spec_decode_") for key in sample.first
    )


FORMATS = (Format(name="vllm-requests", kind="requests", claims=_claims, read=read),)
