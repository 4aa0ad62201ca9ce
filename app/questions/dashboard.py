"""What does `dashboard` ask?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.questions.field import Field, Group, Question
from app.questions.fields import Config


@dataclass(frozen=True, kw_only=True)
class DashboardQuestion(Question):
    """Serve the dashboard in a browser.

    Recommendations, maps, trees, recordings and hardware are pages with links that can be
    shared.
    """

    answered_by: ClassVar[str] = "app.dashboard.command"
    json: ClassVar[bool] = False  # the command has no such option
    quiet: ClassVar[bool] = False
    port: Annotated[int, Field("Port to listen on.", Group.HARDWARE, least=1, most=65535)] = 8501
    host: Annotated[
        str,
        Field(
            "Address to listen on; others than 127.0.0.1 are open to your network.",
            Group.HARDWARE,
        ),
    ] = "127.0.0.1"
    config: Config = None
    method: Annotated[
        list[Path] | None,
        Field(
            "TOML file of a method of your own, which pages and links then name. Repeatable.",
            Group.DRAFTING,
        ),
    ] = None
    only_link: Annotated[
        bool,
        Field("With --config: print the link and serve nothing.", Group.OUTPUT, spelled="--link"),
    ] = False
