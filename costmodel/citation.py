"""Where was a method published, and which numbers did its source report?

Labels of a `Method` that no prediction reads: who, when, and measured values with what a prediction
of them needs. Leaves out the predictions themselves.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """Where a method was published; what no source at hand states stays empty rather than guessed.

    Args:
        title: of the publication, or the system's own name where the title was not seen.
        authors: family names, comma-separated, `et al.` for more.
        year: of the first version; None where it was not seen.
        arxiv: number; empty where it was not on arXiv or the number was not seen.
        url: where there is no number.
    """

    title: str
    authors: str = ""
    year: int | None = None
    arxiv: str = ""
    url: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """A published number, with what a prediction of it needs; what the source leaves out stays
    empty.

    Args:
        quantity: what `value` is, in SI units; a speedup is relative to `relative_to`.
        value: the number.
        source: paper and table, or file.
        model: target.
        draft: draft model or head.
        device: name of a device profile, or as the source calls it.
        devices: number of them.
        dtype: format of the weights.
        batch: requests.
        context: cached tokens per request.
        temperature: of sampling; 0 is greedy.
        data: benchmark.
        tokens_per_step: stated tokens per step, bonus included.
        acceptance: stated acceptance of one draft token, given that those before it were accepted.
        draft_tokens: of a step, root excluded, where they differ from the entry's shape.
        relative_to: slug of the entry, or words.
        note: what else the source says.
    """

    quantity: Literal[
        "speedup", "tokens_per_step", "tokens_per_s", "token_s", "step_s", "prompt_s", "bytes_ratio"
    ]
    value: float
    source: str
    model: str = ""
    draft: str = ""
    device: str = ""
    devices: int = 1
    dtype: str = ""
    batch: int | None = None
    context: int | None = None
    temperature: float | None = None
    data: str = ""
    tokens_per_step: float | None = None
    acceptance: float | None = None
    draft_tokens: int | None = None
    relative_to: str = "plain-decoding"
    note: str = ""
