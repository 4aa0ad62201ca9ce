"""Can pages of figures be drawn here?"""

import importlib.util


def plots_available() -> bool:
    """Whether plotly, of the extra `app`, is installed."""
    return importlib.util.find_spec("plotly") is not None
