"""Serves the dashboard: Streamlit's command line, which makes the first answers while nobody asks yet.

Whoever opens the first page finds modules loaded and its answer made, or on the way. Leaves out which settings the
server has (the verb `dashboard`).
"""

import sys
from threading import Thread

from streamlit.web import cli


def prepare() -> None:
    """Load what the script loads, then answer every page's own question until somebody asks one.

    Leaves out simulations, and replays of masked blocks until a process beside the server has compiled them.
    """
    from app.dashboard import main, pages, prefetch
    from app.dashboard.precompile import is_compiled
    from app.dashboard.state import PAGES, State

    left_out = {main.ASKED_BY_BUTTON} | (set() if is_compiled() else {"diffusion"})
    prefetch.start([State(page=name) for name in PAGES if name not in left_out], pages.answered)


if __name__ == "__main__":
    Thread(target=prepare, name="prepare", daemon=True).start()
    sys.exit(cli.main(prog_name="streamlit"))
