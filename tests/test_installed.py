"""The public surface in seconds, wherever rooftree is installed."""

import importlib
import importlib.metadata
import subprocess
import sys

import pytest

PACKAGES = ("hardware_profiles", "traces", "costmodel", "simulator", "real_runs", "app", "rooftree")


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_are_ours_and_explain_themselves(name):
    module = importlib.import_module(name)
    assert module.__doc__ and module.__doc__.rstrip().endswith(".")
    files = {str(file) for file in importlib.metadata.files("rooftree") or ()}
    folder = module.__path__[0]
    assert f"{name}/__init__.py" in files or folder.endswith(f"/{name}")


def test_data_travels_with_the_packages():
    from costmodel.architectures.library import load_model, model_names
    from costmodel.method_library import load_method, method_names
    from hardware_profiles.loader import device_names, load_device
    from traces.library import default_traces

    for load, names, least in (
        (load_device, device_names, 12),
        (load_model, model_names, 20),
        (load_method, method_names, 8),
    ):
        assert len([load(name) for name in names()]) >= least
    assert len(default_traces()) >= 2


def test_the_command_runs():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from app.cli.main import main; main()",
            "devices",
            "h100-sxm",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"schema": 4' in done.stdout
