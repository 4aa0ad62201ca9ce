"""Which drafters do options name, and where is the acceptance of each one known from?

One meaning of --trace, --acceptance, --tokens-per-step, --drafter and --method for every verb. Leaves out what a source
emits at a draft length (`costmodel.optimizers.sources`, `app.cli.configurations`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.option_groups import Accepted

if TYPE_CHECKING:
    from costmodel.optimizers.sources import Source

OTHERWISE = "speculative-decoding"
"""The method of stated acceptance that names none: chains from a draft model."""


def named_sources(
    accepted: Accepted,
    traces: Sequence[Path],
    *,
    method: str = "",
    otherwise: str = "",
    model: str = "",
    lengths: Sequence[int] = (),
) -> "list[Source]":
    """The sources that options name, in the order of traces, stated numbers and drafters; none where they name none.

    Args:
        accepted: the options.
        traces: of --trace.
        method: slug or name of --method; it must not contradict a trace, and belongs to stated numbers.
        otherwise: slug of a trace that names no method; empty: one must be named.
        model: target, for published figures.
        lengths: draft lengths asked about.

    Raises:
        InputError: options that exclude each other, numbers out of range, a method that a trace contradicts.
    """
    from app.cli.options import method_slug, ratio
    from costmodel.optimizers.sources import drafter_source, length_source, rates_source, trace_source
    from hardware_profiles.errors import InputError
    from traces.library import trace_file

    share, slug = ratio(accepted.match_rate, "--match-rate"), method_slug(method, "--method")
    ways = {"--trace": bool(traces), "--acceptance": accepted.acceptance is not None,
            "--tokens-per-step": accepted.tokens_per_step is not None}  # fmt: skip
    given = [option for option, stands in ways.items() if stands]
    if len(given) > 1:
        rule = "exclude each other; exactly one of them says what is accepted, and --drafter adds further drafters"
        raise InputError(f"{' and '.join(given)} {rule}")
    if accepted.drafter and slug and not given:
        raise InputError("--drafter names its method itself; leave out --method", key="--method", value=method)
    found = [trace_source(trace_file(path), slug, share, otherwise=otherwise) for path in traces]
    if accepted.acceptance is not None:
        found = [rates_source(slug or OTHERWISE, rates_of(accepted.acceptance), match_rate=share)]
    if accepted.tokens_per_step is not None:
        found = [length_source(slug or OTHERWISE, accepted.tokens_per_step, lengths, match_rate=share)]
    return found + [
        drafter_source(text, model=model, lengths=lengths, match_rate=share) for text in accepted.drafter or ()
    ]


def rates_of(text: str, option: str = "--acceptance") -> list[float]:
    """One rate, or rates by position, as the command line gives them.

    Raises:
        InputError: no numbers in [0, 1].
    """
    from hardware_profiles.errors import InputError

    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rule = "must be one rate (0.72), or rates by position separated by commas (0.78,0.61,0.48)"
        raise InputError(rule, key=option, value=text) from None
    if not all(0.0 <= rate <= 1.0 for rate in rates):
        raise InputError("must lie in [0, 1]", key=option, value=text)
    return rates
