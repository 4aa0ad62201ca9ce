"""How long a request can an engine's cache hold, where that is less than a model may ask for?

vLLM and older builds of llama.cpp refuse to start, or fail, where one request of the model's own
length does not fit beside the weights; SGLang, TensorRT-LLM and newer builds of llama.cpp start and
serve shorter requests. A configuration that names no device, as options of `export` state it, keeps
the engine's own length.

References: vLLM, pull request 29431 (`--max-model-len auto`); SGLang, description of pull request
30326 (the length is an upper bound, and requests are limited by the cache); TensorRT-LLM,
`KVCacheManager._validate_and_adjust_attention_windows`; llama.cpp, `--fit`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from costmodel.answers.fit import fits
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration
from costmodel.engine_library import engine_module
from costmodel.laws.acceptance import geometric
from hardware_profiles.errors import InputError

_LONGEST = 1 << 20  # of names that are read as a relative of a model, whose own length is not known


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheLength:
    """What one request may have.

    Args:
        tokens: that the cache is predicted to hold of one request, in whole blocks.
        words: that no more fit, for the notes of an export.
    """

    tokens: int
    words: str


def cache_length(chosen: DecodingConfiguration, engine: str) -> CacheLength | None:
    """The longest request that a cache is predicted to hold; None where the model's own length fits,
    a length is stated, no device is named, or not even a block fits.

    Args:
        chosen: what to run.
        engine: that it is written for, whose share of the memory counts.
    """
    where = chosen.deployment
    if chosen.max_length is not None or not where.device:
        return None
    if engine_module(where.engine) != engine_module(engine):
        where = replace(where, engine=engine)
    try:
        setting = build_setting(replace(chosen, deployment=where))
    except InputError:
        return None  # a target that is not known here, or that the engine does not run there
    drafted = geometric(0.0, chosen.draft_tokens)
    copies, block = where.data_parallel, setting.engine.memory.block_tokens
    relative = bool(setting.target.read_as)
    longest = _LONGEST if relative else setting.target.max_context

    def holds(tokens: int) -> bool:
        return bool(fits(setting, drafted, batch=copies, context=tokens))

    if holds(longest):
        return None
    fitting, beyond = 0, longest // block + 1
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        fitting, beyond = (middle, beyond) if holds(middle * block) else (fitting, middle)
    if not fitting:
        return None
    name = setting.device.name
    beside = (
        f"how long they may be of {where.model} was not looked up"
        if relative
        else f"fewer than the {longest:,} that {setting.target.name} was published for"
    )
    words = (
        f"requests of up to {fitting * block:,} tokens are predicted to fit beside the weights on"
        f" {f'{setting.devices} x {name}' if setting.devices > 1 else name}; {beside}"
    )
    return CacheLength(tokens=fitting * block, words=words)
