"""How is a regime written in a device file?

As a line, `launch 0..0.2, rows 64..inf: -0.05..0.1`: where it holds, and the ends of measured /
predicted - 1 there; `everywhere: -0.05..0.1` where nothing bounds it. Leaves out what regimes mean
(`residuals`).
"""

from functools import lru_cache

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.residuals import SHARES, WHOLE, Regime, Span

EVERYWHERE = "everywhere"
_EXAMPLE = "launch 0..0.2, rows 64..inf: -0.05..0.1"


def regime_line(regime: Regime) -> str:
    """The line that `parse_regime` reads.

    >>> regime_line(Regime(launch=(0.0, 0.2), sizes={"rows": (64, float("inf"))}, low_ratio=-0.05, high_ratio=0.1))
    'launch 0..0.2, rows 64..inf: -0.05..0.1'
    """
    spans = {
        name: getattr(regime, name) for name in SHARES if getattr(regime, name) != WHOLE
    } | dict(regime.sizes)
    where = ", ".join(f"{name} {_written(span)}" for name, span in spans.items())
    return f"{where or EVERYWHERE}: {_written((regime.low_ratio, regime.high_ratio))}"


@lru_cache(maxsize=4096)
def parse_regime(line: str) -> Regime:
    """A regime from its line.

    Raises:
        InputError: another form, an unknown size, or numbers out of their range.
    """
    try:
        where, ends = line.split(":")
        low, high = _read(ends)
        spans: dict[str, Span] = {}
        for part in where.split(",") if where.strip() != EVERYWHERE else ():
            name, span = part.split()
            if name in spans:
                raise ValueError(name)
            spans[name] = _read(span)
    except ValueError:
        raise InputError(f'is not of the form "{_EXAMPLE}"', key="regimes", value=line) from None
    launch, compute = (spans.pop(name, WHOLE) for name in SHARES)
    return Regime(launch=launch, compute=compute, sizes=spans, low_ratio=low, high_ratio=high)


def _read(span: str) -> Span:
    low, high = span.split("..")
    return float(low), float(high)


def _written(span: Span) -> str:
    return "..".join(str(int(end)) if end.is_integer() else repr(end) for end in map(float, span))
