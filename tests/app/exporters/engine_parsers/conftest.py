"""Engines' wheels from a cache folder, and what their own parsers make of an exported script.

`ROOFTREE_WHEELS` names the folder; wheels that it lacks are downloaded there (vLLM's has 340 MB),
without dependencies.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from app.exporters.registry import write_export

HERE = Path(__file__).parent
RELEASES = {
    "vllm": "0.33.0",
    "sglang": "0.5.23",
    "lmdeploy": "0.18.0",
    "msgspec": "0.22.0",
    "xllamacpp": "2026.10.11549",
}
# the arguments, then the variables that engines read, each one closed by a zero byte
RECORDS = """#!/bin/sh
{ for word in "$@"; do printf "%s\\0" "$word"; done; env | grep -E "^(SGLANG|TLLM)_" | tr "\\n" "\\0"; } > "$RECORDED"
"""


@pytest.fixture(scope="session")
def unpacked():
    """Unpack a wheel and return the folder to import it from; skip where it cannot be had."""
    cache = os.environ.get("ROOFTREE_WHEELS")
    if not cache:
        pytest.skip("ROOFTREE_WHEELS names no folder for the engines' wheels")

    def unpack(name):
        release = RELEASES[name]
        folder = Path(cache) / f"{name}-{release}"
        if not folder.is_dir():
            wheels = list(Path(cache).glob(f"{name}-{release}-*.whl"))
            if not wheels:
                words = [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "-q",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                ]
                done = subprocess.run(
                    [*words, "-d", cache, f"{name}=={release}"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                wheels = list(Path(cache).glob(f"{name}-{release}-*.whl"))
                if done.returncode or not wheels:
                    pytest.skip(
                        f"{name} {release} cannot be downloaded:"
                        f" {done.stderr.strip().splitlines()[-1:]}"
                    )
            with zipfile.ZipFile(wheels[0]) as wheel:
                large = name in ("vllm", "lmdeploy")
                names = [
                    each
                    for each in wheel.namelist()
                    if not large or each.endswith((".py", ".json"))
                ]
                wheel.extractall(folder, names)
        return folder

    return unpack


@pytest.fixture(scope="session")
def parsed(unpacked):
    """Hand lists of arguments to an engine's own parser: one answer each, `read` or `refused`; or
    run them."""

    def ask(engine, cases, action="read"):
        needed = {
            "vllm": ("vllm", "msgspec"),
            "sglang": ("sglang", "msgspec"),
            "llama_cpp": ("xllamacpp",),
            "lmdeploy": ("lmdeploy",),
        }[engine]
        places = [str(unpacked(name)) for name in needed]
        done = subprocess.run(
            [sys.executable, HERE / f"{action}_{engine}.py"],
            input=json.dumps(cases),
            capture_output=True,
            text=True,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(places),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        answers = json.loads(done.stdout.splitlines()[-1])
        assert len(answers) == len(cases)
        return answers

    return ask


@pytest.fixture(scope="session")
def arguments_of(tmp_path_factory):
    """Run an exported script with a program in the engine's place that notes what it is started
    with."""

    def run(result):
        folder = tmp_path_factory.mktemp("exported")
        write_export(result, folder)
        (script,) = folder.glob("*.sh")
        programs = tmp_path_factory.mktemp("programs")
        for name in ("vllm", "python3", "llama-server", "lmdeploy"):
            (programs / name).write_text(RECORDS)
            (programs / name).chmod(0o755)
        settings = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "RECORDED": str(programs / "arguments"),
            "NODE_RANK": "0",
            "HEAD_ADDRESS": "10.0.0.1",
        }
        subprocess.run(["sh", script], env=settings, check=True)
        words = (programs / "arguments").read_text().split("\0")[:-1]
        return words[2:] if words[0] == "-m" else words

    return run
