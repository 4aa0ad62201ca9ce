"""Which constants of serving loops were fitted to measured serving runs, and how does one answer
with others?

Everything else comes from kernels, datasheets and sources of engines. Leaves out the fit
(`simulator.closed_loop.fit`).
"""

from collections.abc import Mapping
from dataclasses import replace

from costmodel.engine_library import load_engine
from costmodel.engines.record.engine import SUSTAINED_RATIO, Engine

Constants = Mapping[str, float]

SUSTAINED = "sustained_ratio"
# constant -> engine, part of its record, field
_OF_ENGINES: Mapping[str, tuple[str, str, str]] = {
    "tensorrt-llm.layer_ratio": ("tensorrt-llm", "host", "layer_ratio"),
    "tensorrt-llm.prompt_s": ("tensorrt-llm", "host", "prompt_s"),
    "vllm.cut_bytes": ("vllm", "kernels", "cut_bytes"),
}
NAMES = (SUSTAINED, *_OF_ENGINES)


def engine_of(name: str) -> str | None:
    """The engine whose runs a constant moves; None: all."""
    return _OF_ENGINES[name][0] if name in _OF_ENGINES else None


def shipped() -> dict[str, float]:
    """The constants that answers use unless others are given.

    >>> sorted(shipped()) == sorted(NAMES)
    True
    """
    constants = {SUSTAINED: SUSTAINED_RATIO}
    for name, (engine, part, field) in _OF_ENGINES.items():
        constants[name] = float(getattr(getattr(load_engine(engine), part), field))
    return constants


def with_constants(engine: Engine, constants: Constants) -> Engine:
    """The engine with its constants among these, before its release is chosen; others stay."""
    if SUSTAINED in constants:
        engine = replace(
            engine, kernels=replace(engine.kernels, sustained_ratio=constants[SUSTAINED])
        )
    for name, (owner, part, field) in _OF_ENGINES.items():
        if owner == engine.name and name in constants:
            changes = {field: constants[name]}
            engine = replace(engine, **{part: replace(getattr(engine, part), **changes)})
    return engine
