"""Which tables of requests can be read, and what do they call their columns?

Formats `azure`, `burstgpt`, `lengths` and `mooncake`: one entry each, with the names, units and
beginnings of its columns, which `traces.importers.request_tables` reads out of Parquet, CSV and
JSON lines. Leaves out which prompts share a prefix: only Mooncake's trace tells that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hardware_profiles.units import MILLI
from traces.importers.recognition import Format, Sample
from traces.importers.request_tables import ArrivalColumn, RequestTable, read_table
from traces.importers.requests.request_log import named_columns

_MOONCAKE_BLOCK_TOKENS = 512

TABLES: Mapping[str, RequestTable] = {
    # The public traces of 2023 and 2024 as CSV, or the same as Parquet.
    # Patel et al. 2024, "Splitwise" (arXiv:2311.18677), AzureLLMInferenceTrace_{code,conv}.
    "azure": RequestTable(
        source="a trace of Azure's language models",
        arrival=(
            ArrivalColumn(name="arrival_s", has_dates=True),
            ArrivalColumn(name="TIMESTAMP", has_dates=True),
        ),
        prompt_tokens=("ContextTokens", "input_tokens"),
        output_tokens=("GeneratedTokens", "output_tokens"),
    ),
    # CSV; failed requests have no response token.
    # Wang et al. 2024, "BurstGPT" (arXiv:2401.17644), BurstGPT_1.csv to BurstGPT_3.csv.
    "burstgpt": RequestTable(
        source="a BurstGPT trace",
        arrival=(ArrivalColumn(name="Timestamp", since_first=True),),
        prompt_tokens=("Request tokens",),
        output_tokens=("Response tokens",),
    ),
    # Prompt and output lengths alone, such as those counted over ShareGPT.
    "lengths": RequestTable(
        source="a table of lengths",
        prompt_tokens=("input_tokens", "prompt_tokens", "input_length"),
        output_tokens=("output_tokens", "completion_tokens", "output_length"),
        priority=("priority",),
    ),
    # JSON lines with an id per started block of 512 prompt tokens, or the same as Parquet.
    # Qin et al. 2024, "Mooncake" (arXiv:2407.00079), section 4 and its public trace.
    "mooncake": RequestTable(
        source="a Mooncake trace",
        arrival=(
            ArrivalColumn(name="arrival_s"),
            ArrivalColumn(name="timestamp", unit_s=MILLI, since_first=True),
        ),
        needs_arrival=False,
        prompt_tokens=("input_length", "input_tokens"),
        output_tokens=("output_length", "output_tokens"),
        priority=("priority",),
        prefix_blocks=("hash_ids", f"prefix_block{_MOONCAKE_BLOCK_TOKENS}_ids"),
        block_tokens=_MOONCAKE_BLOCK_TOKENS,
    ),
}


def _has_lengths_alone(sample: Sample) -> bool:
    """Whether it has lengths of prompts and outputs, and nothing that tells an arrival or a block."""
    names = sample.columns or tuple(sample.first if sample.document is None else ())
    lengths = (TABLES["lengths"].prompt_tokens, TABLES["lengths"].output_tokens)
    return (
        all(any(name in names for name in spellings) for spellings in lengths)
        and "hash_ids" not in names
        and named_columns(names).keys() <= {"prompt tokens", "output tokens", "priority"}
    )


_CLAIMS: Mapping[str, Callable[[Sample], bool]] = {
    "azure": lambda sample: sample.tabulates("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": lambda sample: sample.tabulates("Timestamp", "Request tokens", "Response tokens"),
    "lengths": _has_lengths_alone,
    "mooncake": lambda sample: (
        sample.holds("input_length", "output_length", "hash_ids")
        or (sample.document is None and sample.holds("timestamp", "input_length", "output_length"))
        or sample.tabulates("output_tokens", f"prefix_block{_MOONCAKE_BLOCK_TOKENS}_ids")
    ),
}

FORMATS = tuple(
    Format(name=name, kind="requests", claims=_CLAIMS[name], read=partial(read_table, table=table))
    for name, table in TABLES.items()
)
