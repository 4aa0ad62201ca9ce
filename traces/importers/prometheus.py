"""What did an engine's Prometheus counters count, at one scrape or between two?

Reads samples by name and labels, and subtracts an earlier scrape. A counter that fell or vanished
is refused: the engine was restarted in between, and what it had counted until then is lost. Leaves
out what the counters mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hardware_profiles.errors import InputError
from traces.importers.counted import MOST_POSITIONS
from traces.importers.files import read_text

_SAMPLE = re.compile(
    r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*", re.ASCII
)
_LABEL = re.compile(
    r'(?<!\w)(?P<name>[A-Za-z_]\w{0,200})\s{0,4}=\s{0,4}"(?P<value>(?:[^"\\]|\\.)*)"', re.ASCII
)
_MAX_LINE = 1 << 14

Key = tuple[str, tuple[tuple[str, str], ...]]
Series = dict[Key, float]


def scrape(path: str | Path, prefix: str, names: Sequence[str], model: str | None) -> Series:
    """The samples of some names, by name (prefix and `_total` removed) and labels.

    Args:
        path: text of `/metrics`.
        prefix: beginning of the names.
        names: of the samples, without prefix and `_total`.
        model: `model_name` to read where several models are served; None: the only one.

    Raises:
        InputError: none of them, a line that is no sample, or several models and none chosen.
    """
    file = str(path)
    series: Series = {}
    models = set()
    for line in read_text(path).splitlines():
        if not line.startswith(prefix) or len(line) > _MAX_LINE:
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise InputError("must be a Prometheus sample", file=file, value=line)
        name = match["name"].removeprefix(prefix).removesuffix("_total")
        if name not in names:
            continue
        labels = {label["name"]: label["value"] for label in _LABEL.finditer(match["labels"] or "")}
        served = labels.get("model_name", "")
        if model is not None and served != model:
            continue
        models.add(served)
        key = (name, tuple(sorted(labels.items())))
        series[key] = series.get(key, 0.0) + _number(match["value"], file, match["name"])
    if len(models) > 1:
        raise InputError(
            f"choose one of the models {', '.join(sorted(models))[:300]}", file=file, key="model"
        )
    if not series:
        rule = "no speculative decoding counters" + ("" if model is None else f" of model {model}")
        raise InputError(rule, file=file, key=prefix)
    return series


def samples(text: str) -> tuple[Series, dict[str, str]]:
    """All samples of a text by full name and labels, and the kind of every name that a `# TYPE`
    line states.

    Lines that are no samples, and values that are no finite numbers, are passed over: an engine's
    text holds those of its libraries too.
    """
    series: Series = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if len(line) > _MAX_LINE:
            continue
        if line.startswith("#"):
            words = line.split()
            if len(words) == 4 and words[1] == "TYPE":
                kinds[words[2]] = words[3]
        elif (match := _SAMPLE.fullmatch(line)) is not None:
            try:
                value = float(match["value"])
            except ValueError:
                continue
            if math.isfinite(value):
                labels = sorted(
                    (label["name"], label["value"])
                    for label in _LABEL.finditer(match["labels"] or "")
                )
                series[match["name"], tuple(labels)] = value
    return series, kinds


def gained(end: Series, start: Series, file: str, before: str | Path) -> Series:
    """What every counter gained since an earlier scrape (an empty one: since the engine started).

    Args:
        end: samples of the later scrape.
        start: samples of the earlier one; empty: since the engine started.
        file: of the later scrape, for messages.
        before: file of the earlier one, for messages.

    Raises:
        InputError: one fell or vanished.
    """
    gains = {
        key: end.get(key, -1.0) - start.get(key, 0.0) for key in sorted(end.keys() | start.keys())
    }
    for (name, _), value in gains.items():
        if value < 0:
            rule = (
                f"the counter fell or vanished after {before} was scraped (engine restarted, or"
                " scrapes swapped)"
            )
            raise InputError(rule, file=file, key=name)
    return gains


def summed(series: Series, name: str, file: str) -> int:
    """A counter over all of its labels; 0 where it is absent.

    Args:
        series: samples.
        name: of the counter.
        file: name for messages.

    Raises:
        InputError: no whole number.
    """
    return _whole(sum(value for (own, _), value in series.items() if own == name), file, name)


def by_position(series: Series, name: str, file: str, label: str = "position") -> list[int]:
    """A counter by position, from the first; empty where it is absent. Positions count from 0, or
    all from 1.

    Args:
        series: samples.
        name: of the counter.
        file: name for messages.
        label: that holds the position.

    Raises:
        InputError: a position out of range.
    """
    counts: dict[int, int] = {}
    for (own, labels), value in series.items():
        if own == name:
            at = _position(dict(labels), label, file)
            counts[at] = counts.get(at, 0) + _whole(value, file, name)
    first = 0 if 0 in counts or not counts else 1
    return [counts.get(at, 0) for at in range(first, max(counts, default=-1) + 1)]


def models_of(series: Series) -> str:
    """The served models, as one text."""
    return ", ".join(
        sorted({value for _, labels in series for name, value in labels if name == "model_name"})
    )


def _number(text: str, file: str, key: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # counters are doubles, which hold whole numbers exactly up to here
    if not 0 <= value < 2**53:
        raise InputError("must be a number >= 0", file=file, key=key, value=text)
    return value


def _whole(value: float, file: str, key: str) -> int:
    if value != int(value):
        raise InputError("a counter must be a whole number >= 0", file=file, key=key, value=value)
    return int(value)


def _position(labels: Mapping[str, str], label: str, file: str) -> int:
    text = labels.get(label, "")
    if not (text.isascii() and text.isdigit() and len(text) < 6) or int(text) >= MOST_POSITIONS:
        raise InputError(
            f"must be a position in 0..{MOST_POSITIONS - 1}", file=file, key=label, value=text
        )
    return int(text)
