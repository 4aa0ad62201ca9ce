"""`rooftree dashboard`: what it starts, and where that listens."""

import importlib.util
import json
import os
import signal
import subprocess
import sys

import pytest

from app.cli.main import main
from app.cli.verbs.dashboard import server_words
from app.dashboard.pages import answered
from app.dashboard.precompile import compile_replays, is_compiled
from app.dashboard.state import PAGES, State
from hardware_profiles.errors import InputError
from traces.replay.confidence.compiled_grid import walk_prompt


def test_the_server_listens_on_this_machine_alone_by_default(monkeypatch):
    started = []
    monkeypatch.setattr("app.cli.verbs.dashboard._served", lambda words: started.append(words) or 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert main(["dashboard"]) == 0
    assert main(["dashboard", "--host", "0.0.0.0", "--port", "9000"]) == 0
    places = [json.loads(words[-1]) for words in started]
    assert [place["server.address"] for place in places] == ["127.0.0.1", "0.0.0.0"]
    assert [place["server.port"] for place in places] == [8501, 9000]
    assert all(place["browser.gatherUsageStats"] is False for place in places)
    assert all(place["client.showErrorDetails"] == "none" for place in places)


def test_the_scripts_are_there():
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    from app.dashboard.serve import SCRIPT, plotly_file

    assert SCRIPT.is_file() and plotly_file().is_file()


@pytest.mark.parametrize(("compiled", "left_out"), [(True, {"serving"}), (False, {"serving", "diffusion"})])
def test_a_server_begins_with_the_questions_of_its_pages(monkeypatch, compiled, left_out):
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    from app.dashboard import prefetch, serve

    started = []
    monkeypatch.setattr(prefetch, "start", lambda questions, answer, *, idle: started.append((questions, answer, idle)))
    monkeypatch.setattr("app.dashboard.precompile.is_compiled", lambda: compiled)
    serve.prepare()
    ((questions, answer, idle),) = started
    assert questions == [State()], "what a first visitor sees, whom nothing else keeps waiting"
    assert {each.page for each in idle} == {*PAGES} - left_out - {"run"}
    assert answer is answered, "what is drawn below the charts would keep a first visitor waiting"


@pytest.mark.parametrize("host", ["example.org", "", "--help", "1.2.3"])
def test_an_address_that_is_none_is_refused(host):
    with pytest.raises(InputError, match="--host"):
        server_words("python", host=host, port=8501)


def test_streamlit_knows_every_setting():
    config = pytest.importorskip("streamlit.config", reason="streamlit, of the extra `app`, is not installed")
    for name in json.loads(server_words("python", host="localhost", port=8501)[-1]):
        config.get_option(name)


@pytest.mark.parametrize("port", ["0", "65536", "x"])
def test_a_port_that_is_none_is_refused(port, capsys):
    assert main(["dashboard", "--port", port]) == 2
    assert "--port" in capsys.readouterr().err


def test_without_streamlit_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["dashboard"]) == 2
    assert "rooftree[app]" in capsys.readouterr().err


SERVER = "import signal, sys; print('serves', flush=True); signal.pause()"
VERB = "import sys; from app.cli.verbs.dashboard import _served; sys.exit(_served([sys.executable, '-c', sys.argv[1]]))"


@pytest.mark.skipif(not hasattr(signal, "pause"), reason="POSIX signals")
def test_the_server_ends_with_the_command():
    """SIGTERM to the command alone, as service managers send it; the server holds the pipe until it ends."""
    with subprocess.Popen([sys.executable, "-c", VERB, SERVER], stdout=subprocess.PIPE, text=True) as verb:
        assert verb.stdout.readline() == "serves\n"
        verb.send_signal(signal.SIGTERM)
        assert verb.stdout.read() == ""
        assert verb.wait(timeout=60) != 0


def test_what_was_compiled_is_not_again(tmp_path):
    source, kept = tmp_path / "compiled_grid.py", tmp_path / "__pycache__" / "compiled_grid.walk_prompt-27.py311.1.nbc"
    source.write_text("")
    assert not is_compiled(source)
    kept.parent.mkdir()
    kept.write_bytes(b"")
    assert is_compiled(source)
    os.utime(kept, (0, 0))
    assert not is_compiled(source), "the source has changed since"


def test_compiling_covers_what_a_search_runs():
    compile_replays()
    assert walk_prompt.signatures, "the loop of every grid"
