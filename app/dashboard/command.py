"""`dashboard`: which link shows a configuration, and under which settings are the pages served?"""

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import ClassVar

from app.answers.answer import Answer, Row
from app.dashboard import serve
from app.dashboard.link import link
from app.questions.dashboard import DashboardQuestion
from app.questions.field import inputs_of
from costmodel.configuration.file import read_configuration
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Dashboard(Answer):
    """The dashboard, which is served once its link has been shown.

    Attributes:
        link: of the page that shows the configuration; None where none was named.
        is_served: whether anything more than the link was asked for.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True  # it has no files
    link: str | None
    is_served: bool

    @property
    def own_rows(self) -> Sequence[Row]:
        """None: it is pages."""
        return ()

    def shown(self) -> Iterator[str]:
        """The link."""
        if self.link is not None:
            yield self.link

    def afterwards(self) -> None:
        """Serve the pages until a signal ends it.

        Raises:
            InputError: an address that is none, or a library is missing.
        """
        if not self.is_served:
            return
        if not all(importlib.util.find_spec(name) for name in ("streamlit", "plotly")):
            raise InputError("streamlit and plotly are missing; pip install rooftree[app]")
        settings = server_settings(host=self.inputs["host"], port=self.inputs["port"])
        serve.serve(settings)


def answer(question: DashboardQuestion) -> Dashboard:
    """The link of a configuration, and the pages to serve.

    Raises:
        InputError: a file that holds no configuration or no method, or one that no link can say.
    """
    for file in question.method or ():
        load_method(str(file))  # known by its slug from here on
    address = None
    if question.config is not None:
        configuration = read_configuration(question.config)
        address = link(configuration, host=question.host, port=question.port)
    return Dashboard(inputs=inputs_of(question), link=address, is_served=not question.only_link)


def server_settings(*, host: str, port: int) -> dict[str, str | int | bool]:
    """Streamlit's settings: no telemetry, no error details, uploads bounded.

    Args:
        host: address to bind to.
        port: port to bind to.

    Raises:
        InputError: an address that is none.
    """
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
