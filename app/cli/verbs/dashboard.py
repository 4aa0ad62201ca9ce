"""`dashboard`: the what-if pages in a browser."""

from typing import Annotated

from app.questions.field import Field, Group
from app.questions.fields import Config


def dashboard(
    port: Annotated[int, Field("Port to listen on.", Group.HARDWARE, least=1, most=65535)] = 8501,
    host: Annotated[
        str,
        Field(
            "Address to listen on; others than 127.0.0.1 are open to your network.",
            Group.HARDWARE,
        ),
    ] = "127.0.0.1",
    config: Config = None,
    only_link: Annotated[
        bool,
        Field("With --config: print the link and serve nothing.", Group.OUTPUT, spelled="--link"),
    ] = False,
) -> int:
    """Serve the dashboard: recommendations, maps, trees, recordings and hardware as links that can
    be shared.
    """
    from importlib.util import find_spec

    from hardware_profiles.errors import InputError

    if config is not None:
        from app.dashboard.link import link
        from app.render.text import say
        from costmodel.configuration.file import read_configuration

        say(link(read_configuration(config), host=host, port=port))
    if only_link:
        return 0
    if find_spec("streamlit") is None or find_spec("plotly") is None:
        raise InputError("streamlit and plotly are missing; pip install rooftree[app]")
    settings = server_settings(host=host, port=port)
    from app.dashboard.serve import serve

    try:
        serve(settings)
    except KeyboardInterrupt:
        return 130
    return 0


def server_settings(*, host: str, port: int) -> dict[str, str | int | bool]:
    """Streamlit's settings: no telemetry, no error details, uploads bounded.

    Args:
        host: address to bind to.
        port: port to bind to.

    Raises:
        InputError: an address that is none.
    """
    from ipaddress import ip_address

    from hardware_profiles.errors import InputError

    if host != "localhost":
        try:
            ip_address(host)
        except ValueError:
            raise InputError(
                "must be an IP address or localhost", key="--host", value=host
            ) from None
    return {
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.maxUploadSize": 32,
        "browser.gatherUsageStats": False,
        "client.showErrorDetails": "none",
        "client.toolbarMode": "viewer",
        "runner.magicEnabled": False,
        "global.disableWidgetStateDuplicationWarning": True,
        # after every change it would hold back the last charts for 0.1 s; Python's own collections
        # are enough
        "runner.postScriptGC": False,
        # the charts' blue; Streamlit's own red is too dark on its dark page
        "theme.light.primaryColor": "#0072B2",
        "theme.dark.primaryColor": "#56B4E9",
    }
