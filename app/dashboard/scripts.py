"""Where does a browser find the scripts that draw answers?

A module of its own: Streamlit runs the dashboard's script again at every change, which would forget
it.
"""

from functools import lru_cache
from pathlib import Path

PLOTLY_ADDRESS = ""
"""Relative to every page; empty where no server of ours gives it (`serve`), so that sessions send
it."""


@lru_cache(maxsize=2)
def component_source(kind: str) -> str:
    """The script (`js`) or style (`css`) of the component that draws answers."""
    return Path(__file__).with_name(f"chart_component.{kind}").read_text(encoding="utf-8")
