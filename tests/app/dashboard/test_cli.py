"""`rooftree dashboard`: what it starts, and where that listens."""

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from app.cli.main import main
from app.dashboard.command import server_settings
from app.dashboard.precompile import compile_replays
from app.dashboard.state import State
from hardware_profiles.errors import InputError
from traces.replay.confidence.compiled_grid import walk_prompt

PATIENCE_S = 300


def test_the_server_listens_on_this_machine_alone_by_default(monkeypatch):
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    started = []
    monkeypatch.setattr("app.dashboard.serve.serve", started.append)
    assert main(["dashboard"]) == 0
    assert main(["dashboard", "--host", "0.0.0.0", "--port", "9000"]) == 0
    assert [place["server.address"] for place in started] == ["127.0.0.1", "0.0.0.0"]
    assert [place["server.port"] for place in started] == [8501, 9000]
    assert all(place["browser.gatherUsageStats"] is False for place in started)
    assert all(place["client.showErrorDetails"] == "none" for place in started)


def test_the_scripts_are_there():
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    from app.dashboard.serve import SCRIPT, plotly_file

    assert SCRIPT.is_file() and plotly_file().is_file()


def test_a_server_answers_the_first_page_before_it_listens(monkeypatch):
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    from app.dashboard import pages, serve

    questions = []
    monkeypatch.setattr(pages, "answered", questions.append)
    serve.prepare()
    assert questions == [State()], "what a first visitor sees"


@pytest.mark.parametrize("host", ["example.org", "", "--help", "1.2.3"])
def test_an_address_that_is_none_is_refused(host):
    with pytest.raises(InputError, match="--host"):
        server_settings(host=host, port=8501)


def test_streamlit_knows_every_setting():
    config = pytest.importorskip(
        "streamlit.config", reason="streamlit, of the extra `app`, is not installed"
    )
    for name in server_settings(host="localhost", port=8501):
        config.get_option(name)


@pytest.mark.parametrize("port", ["0", "65536", "x"])
def test_a_port_that_is_none_is_refused(port, capsys):
    assert main(["dashboard", "--port", port]) == 2
    assert "--port" in capsys.readouterr().err


def test_without_streamlit_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["dashboard"]) == 2
    assert "rooftree[app]" in capsys.readouterr().err


def started(port, tmp_path):
    """The command as a process of its own, once it answers."""
    line = "import sys; from app.cli.main import main; sys.exit(main())"
    with (tmp_path / "log").open("w") as out:
        words = [sys.executable, "-c", line, "dashboard", "--port", str(port)]
        process = subprocess.Popen(words, stdout=out, stderr=out)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health"),
        ):
            return process
        assert process.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the server never answers")


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_with_the_command(tmp_path, number):
    """SIGTERM as service managers send it, and Ctrl-C; nothing listens afterwards and no traceback
    is left."""
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    process = started(port, tmp_path)
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == (130 if number == signal.SIGINT else -signal.SIGTERM)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 1)
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_compiling_covers_what_a_search_runs():
    compile_replays()
    assert walk_prompt.signatures, "the loop of every grid"
