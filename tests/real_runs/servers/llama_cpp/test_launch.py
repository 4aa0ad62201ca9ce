"""A server that is launched answers, ends with its block and with its parent, and says why it did
not come up."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.exporters.registry import export
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from real_runs.servers.llama_cpp import launch
from real_runs.servers.llama_cpp.launch import launched
from tests.real_runs.servers.llama_cpp.asked import get, greedy

PATIENCE_S = 300  # less than any process lives that should have been ended
# a stand-in for a build of llama-server: listens where it is told to, notes how it was started
STAND_IN = """#!{python}
import http.server, json, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(json.dumps([sys.argv[1:], sorted(os.sched_getaffinity(0)), sorted(os.environ)]).encode())
    def log_message(self, *words): pass
words = dict(zip(sys.argv[1:], sys.argv[2:]))
server = http.server.HTTPServer((words["--host"], int(words["--port"])), Handler)
print(f"main: server is listening on http://127.0.0.1:{{server.server_port}} - starting the main loop", flush=True)
server.serve_forever()
"""


@pytest.fixture
def program(tmp_path):
    def write(text):
        file = tmp_path / "llama-server"
        file.write_text(text.format(python=sys.executable))
        file.chmod(0o755)
        return file

    return write


def is_alive(pid):
    """Whether a process runs; one that ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid):
    until = time.monotonic() + PATIENCE_S
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_alive(pid)


def refuse(message, *words, folder, **settings):
    """Launch what must not come up, and return the error."""
    with (
        pytest.raises(InputError, match=message) as caught,
        launched(list(words), folder=folder, **settings),
    ):
        pass
    return caught.value


def test_a_program_is_started_with_its_own_flags_and_those_that_are_missing(
    program, tmp_path, monkeypatch
):
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "99")
    cpu = min(os.sched_getaffinity(0))
    given = ["--model", "a.gguf", "--some-later-flag", "3"]
    with launched(
        given, folder=tmp_path / "run", binary=program(STAND_IN), threads=2, cpu=cpu
    ) as running:
        added = ["--host", "127.0.0.1", "--port", "0", "--threads", "2", "--metrics"]
        words, cpus, environment = json.loads(get(running, "/health"))
        assert words == [*given, *added] == list(running.command)
        assert cpus == [cpu] and "LLAMA_ARG_CTX_SIZE" not in environment
        assert is_alive(running.pid)
    assert gone(running.pid)


def test_what_is_on_the_path_is_taken_before_the_package(program, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{program(STAND_IN).parent}:{os.environ['PATH']}")
    with launched(["--model", "a.gguf"], folder=tmp_path / "run") as running:
        assert json.loads(get(running, "/"))[0] == list(running.command)


def test_an_error_inside_the_block_ends_the_server(program, tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        launched([], folder=tmp_path / "run", binary=program(STAND_IN)) as running,
    ):
        raise ZeroDivisionError
    assert gone(running.pid)


def test_a_server_that_ends_says_why(program, tmp_path):
    dying = "#!{python}\nimport sys\nprint('error: invalid argument: --nonsense'); sys.exit(3)\n"
    said = "ended with 3 before it answered: error: invalid argument: --nonsense"
    error = refuse(said, "--nonsense", folder=tmp_path / "run", binary=program(dying))
    assert error.file == str(tmp_path / "run" / "server.log")


def test_a_server_that_never_answers_is_ended(program, tmp_path, monkeypatch):
    """However far it has come by then."""
    silent = "#!{python}\nimport time\ntime.sleep(3600)\n"
    begun, start = [], subprocess.Popen

    def noted(*words, **settings):
        begun.append(start(*words, **settings))
        return begun[-1]

    monkeypatch.setattr(launch.subprocess, "Popen", noted)
    refuse("did not answer within 1 s", folder=tmp_path / "run", binary=program(silent), wait_s=1.0)
    (server,) = begun
    assert gone(server.pid)


def test_a_server_that_does_not_end_when_asked_to_is_killed(program, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_GRACE_S", 0.2)
    deaf = STAND_IN.replace(
        "words =", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwords ="
    )
    with launched([], folder=tmp_path / "run", binary=program(deaf)) as running:
        pass
    assert gone(running.pid)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["--host", "0.0.0.0"], {}, "listens on loopback alone"),
        ([], {"threads": 0}, "threads: must be at least 1, got 0"),
        ([], {"cpu": 10**6}, "cpu: must be one of"),
        ([], {"binary": Path("/nowhere/llama-server")}, "binary: must be a program"),
        (["--hf-repo", "a/b"], {}, "nothing is downloaded, got 'a/b'"),
        (["--drafts", "3"], {}, "unknown flag of llama-server '--drafts'; nearest: --draft-"),
        (["--parallel"], {}, "--parallel: needs a value"),
        (["--parallel", "two"], {}, "--parallel: must be a number, got 'two'"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anything_starts(
    tmp_path, monkeypatch, arguments, settings, message
):
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(launch.subprocess, "Popen", None)
    refuse(message, *arguments, folder=tmp_path / "run", **settings)


def test_without_a_server_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    refuse(r"pip install 'rooftree\[llama\]'", folder=tmp_path / "run")


@pytest.mark.model
def test_the_embedded_server_runs_an_exported_command(shipped, tmp_path):
    given = [
        "--model",
        str(shipped),
        "--ctx-size",
        "512",
        "--parallel",
        "2",
        "--spec-type",
        "ngram-simple",
    ]
    lookup = [
        "--spec-ngram-simple-size-n",
        "2",
        "--spec-ngram-simple-size-m",
        "4",
        "--spec-draft-n-max",
        "4",
    ]
    synthetic = ["--spec-synth-rates", "1,1,1,1"]
    with launched([*given, *lookup, *synthetic], folder=tmp_path) as running:
        timings = greedy(running, "one two three four " * 6, 16, ignore_eos=True)["timings"]
        assert (
            timings["predicted_n"] == 16 and timings["draft_n"] == timings["draft_n_accepted"] > 0
        )
        properties = json.loads(get(running, "/props"))
        assert (
            properties["total_slots"] == 2
            and properties["default_generation_settings"]["n_ctx"] == 256
        )
        assert "llamacpp:tokens_predicted_total 16" in get(running, "/metrics")
    assert gone(running.pid)


@pytest.mark.model
@pytest.mark.parametrize(
    ("method", "changes", "options"),
    [
        ("plain-decoding", {}, {}),
        ("n-gram", {"draft_tokens": 4}, {}),
        ("n-gram", {"draft_tokens": 4}, {"variant": "ngram-map-k"}),
        ("n-gram", {"draft_tokens": 4}, {"variant": "ngram-mod"}),
        ("n-gram", {"draft_tokens": 4}, {"version": "old"}),
        (
            "speculative-decoding",
            {"draft_tokens": 2, "acceptance_by_depth": (0.5, 0.25)},
            {"synthetic": True},
        ),
    ],
)
def test_what_is_exported_is_started_as_it_is(few_layers, tmp_path, method, changes, options):
    own = (
        {"draft_model": str(few_layers)}
        if method == "speculative-decoding"
        else {"ngram_min": 2, "ngram_max": 2}
    )
    chosen = DecodingConfiguration(
        method=method,
        context=128,
        max_batch=2,
        max_length=128,
        deployment=DeploymentNames(model=str(few_layers)),
        **({} if method == "plain-decoding" else own | changes),
    )
    program, *arguments = shlex.split(export(chosen, "llama.cpp", **options).command)
    assert program == "llama-server"
    with launched(arguments, folder=tmp_path) as running:
        assert running.command[: len(arguments)] == tuple(arguments)
        properties = json.loads(get(running, "/props"))
        assert (
            properties["total_slots"] == 2
            and properties["default_generation_settings"]["n_ctx"] >= 128
        )
        count = 60 if method == "n-gram" else 12  # ngram-mod sees a text again after 32 tokens
        timings = greedy(running, "one two three four " * 8, count, ignore_eos=True)["timings"]
        assert timings["predicted_n"] == count
        assert (timings.get("draft_n", 0) > 0) == (method != "plain-decoding")


@pytest.mark.model
def test_the_embedded_server_says_why_it_does_not_start(few_layers, tmp_path):
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(b"no model")
    for model in (tmp_path / "none.gguf", foreign):
        refuse("failed to load model", "--model", str(model), folder=tmp_path)
    refuse(
        "unknown name 'draft-eagle4'",
        "--model",
        str(few_layers),
        "--spec-type",
        "draft-eagle4",
        folder=tmp_path,
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        message = f"ended with 2 before it answered: .*{port}"
        refuse(message, "--model", str(few_layers), "--port", port, folder=tmp_path)


PARENT = """
import sys, time
from pathlib import Path
from real_runs.servers.llama_cpp.launch import launched
from tests.real_runs.servers.llama_cpp.asked import get, greedy
with launched(["--model", sys.argv[1], "--ctx-size", "256"], folder=Path(sys.argv[2])) as running:
    print(running.pid, flush=True)
    time.sleep(3600)
"""


@pytest.mark.model
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_server_outlives_its_parent(few_layers, tmp_path, root, number):
    environment = os.environ | {"PYTHONPATH": str(root)}
    words = [sys.executable, "-c", PARENT, str(few_layers), str(tmp_path)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as parent:
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(number)
        parent.communicate(timeout=PATIENCE_S)
    assert gone(pid)


@pytest.mark.model
def test_a_server_that_dies_in_the_middle_leaves_its_block_as_usual(few_layers, tmp_path):
    with launched(["--model", str(few_layers), "--ctx-size", "256"], folder=tmp_path) as running:
        os.kill(running.pid, signal.SIGKILL)
        with pytest.raises(OSError):
            greedy(running, "Once", 4)
    assert gone(running.pid)
