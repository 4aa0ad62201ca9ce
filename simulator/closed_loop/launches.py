"""How did those who measured a row of a table launch the engine, and how did they load it?

Two published habits stand behind most tables of serving runs: NVIDIA's, whose generator sizes an engine's batches by
the prompt, and InferenceMAX's, whose lengths vary. Leaves out options that no table and no script states.
"""

from dataclasses import dataclass, replace

from costmodel.engines.record.engine import Engine

# aiconfigurator, generator/rule_plugin/benchmark: tokens of an iteration above the prompt, and above the batch where
# the engine's rule counts it
_SLACK_TOKENS = 1500
# InferenceMAX, README: RANDOM_RANGE_RATIO 0.8, with these pairs of (ISL, OSL); its scripts set the most requests to
# the concurrency
_RANGE_SPREAD = 0.2
_RANGE_LENGTHS = ((1024, 1024), (1024, 8192), (8192, 1024))


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """An engine as it was launched, and how far lengths of requests vary.

    Args:
        engine: with the settings it was launched with.
        length_spread: as in `Users`.
    """

    engine: Engine
    length_spread: float = 0.0


def launched(
    engine: Engine, *, users: int, batch: int | None, prompt_tokens: int, output_tokens: int, image: str | None
) -> Launch:
    """The launch behind a row of a table.

    Args:
        engine: with its defaults on the device, which stay where nothing else is known.
        users: requests in flight.
        batch: largest batch that the row states; NVIDIA's tables do.
        prompt_tokens: nominal.
        output_tokens: nominal.
        image: container that the engine ran in, where the row says. One that the engine's makers publish means
            InferenceMAX; NVIDIA's generator deploys images of its own.

    Raises:
        InputError: the engine's scheduler is not known.

    >>> from costmodel.engine_library import load_engine
    >>> from hardware_profiles.loader import load_device
    >>> engine = load_engine("trtllm").on(load_device("h100-sxm"))
    >>> found = launched(engine, users=8, batch=8, prompt_tokens=2048, output_tokens=128, image=None)
    >>> found.engine.scheduling.batch_tokens
    3556
    """
    usual, known = engine.scheduling, engine.launches
    if known is None:
        return Launch(engine=engine)
    if image and image.casefold().startswith(known.image):
        if (prompt_tokens, output_tokens) not in _RANGE_LENGTHS:
            return Launch(engine=engine)
        script = replace(
            usual, requests=users, batch_tokens=known.benchmark_batch_tokens or usual.batch_tokens,
            overlaps=usual.overlaps or known.benchmark_overlaps,
        )  # fmt: skip
        return Launch(engine=replace(engine, scheduler=script), length_spread=_RANGE_SPREAD)
    if batch is None:
        return Launch(engine=engine)
    if known.whole_prompts:
        tokens = prompt_tokens + _SLACK_TOKENS
        fits = tokens < usual.batch_tokens
        whole = replace(usual, batch_tokens=tokens, chunks=False) if fits else usual
        return Launch(engine=replace(engine, scheduler=whole))
    sized = replace(usual, batch_tokens=batch + prompt_tokens + _SLACK_TOKENS)
    ratio = known.generated_ratio or engine.memory.ratio
    return Launch(engine=replace(engine, scheduler=sized, memory=replace(engine.memory, ratio=ratio)))
