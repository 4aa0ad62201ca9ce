import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.exporters.registry import ENGINES, MASKED_PROGRAMS, export, write_export
from costmodel.engine_library import load_engine
from costmodel.method_library import load_method, method_names
from hardware_profiles.errors import InputError, UnknownNameError
from tests.every import every

pytestmark = pytest.mark.heavy

GOLDEN = Path(__file__).parent / "golden"
SCHEDULE = ((1, 16, 5), (17, 64, 3), (65, 512, 0))


@pytest.fixture
def golden_choices(build):
    named = {"model": "org/target", "provenance": {"device": "h100-sxm", "tokens per step": 2.41}}
    return {
        "vllm": build(**named, schedule=SCHEDULE, tensor_parallel=2),
        "sglang": build(**named, schedule=SCHEDULE, tensor_parallel=2),
        "tensorrt-llm": build(**named, schedule=SCHEDULE, tensor_parallel=2),
        "llama.cpp": build(
            "speculative-decoding", **named | {"model": "org/target:Q4_K_M"}, max_batch=4
        ),
        "transformers": build("speculative-decoding", **named),
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_exports_are_those_on_file(golden_choices, engine):
    folder = GOLDEN / engine
    files = export(golden_choices[engine], engine).files
    stored = {str(path.relative_to(folder)) for path in folder.rglob("*.golden")}
    assert stored == {f"{name}.golden" for name in files}
    for name, content in files.items():
        assert (folder / f"{name}.golden").read_text(encoding="utf-8") == content, name


@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_writes_for_its_default_version(golden_choices, engine):
    result = export(golden_choices[engine], engine)
    options = load_engine(engine).options
    assert result.version == options.default
    assert result.checked_against == (result.version,)
    assert result.version in options.releases


@pytest.mark.parametrize("engine", ENGINES)
@every("method", method_names())
def test_every_method_is_written_or_refused_by_name(build, engine, method):
    choice = build(method, ngram_min=1, ngram_max=1)
    for version in load_engine(engine).options.releases:
        try:
            result = export(choice, engine, version)
        except InputError as error:
            assert f"{engine} {version}" in str(error)
            assert error.exit_code == 2
            masked = load_method(method).refine is not None and engine in MASKED_PROGRAMS
            assert (error.key, error.value) == ("method", method) or (masked and error.key)
        else:
            assert result.files and all(content.endswith("\n") for content in result.files.values())


def test_unknown_engines_offer_the_nearest(build):
    with pytest.raises(UnknownNameError, match="tensorrt-llm"):
        export(build(), "tensorrt")
    with pytest.raises(InputError, match="known"):
        export(build(), "vllm", "")


def test_the_same_choice_is_written_the_same_way_twice(golden_choices):
    for engine, choice in golden_choices.items():
        assert export(choice, engine) == export(choice, engine)


def test_files_reach_the_folder_whole_and_scripts_can_be_run(golden_choices, tmp_path):
    for engine, choice in golden_choices.items():
        result = export(choice, engine)
        folder = tmp_path / "new" / engine
        written = write_export(result, folder)
        assert [str(path.relative_to(folder)) for path in written] == list(result.files)
        assert {path.name for path in folder.iterdir()} == {
            name.partition("/")[0] for name in result.files
        }
        for path, content in zip(written, result.files.values(), strict=True):
            assert path.read_text(encoding="utf-8") == content
            assert os.access(path, os.X_OK) == (path.suffix == ".sh")


def test_a_second_export_replaces_the_first(build, tmp_path):
    (kept,) = [
        path
        for path in write_export(export(build("mtp"), "vllm"), tmp_path)
        if path.suffix == ".json"
    ]
    before = kept.read_text()
    write_export(export(build("n-gram"), "vllm"), tmp_path)
    assert kept.read_text() != before


def test_a_failure_leaves_nothing_half_written(build, tmp_path, monkeypatch):
    result = export(build("mtp"), "vllm")
    write_export(result, tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    whole = Path.write_bytes

    def fails_on_the_script(self, content):
        if self.suffix == ".sh":
            whole(self, content[:20])
            raise OSError(28, "No space left on device")
        return whole(self, content)

    monkeypatch.setattr(Path, "write_bytes", fails_on_the_script)
    with pytest.raises(OSError, match="No space left") as told:
        write_export(export(build("n-gram"), "vllm"), tmp_path)
    assert told.value.filename == str(tmp_path)
    monkeypatch.undo()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["../outside.sh", "/etc/outside.sh", "a/../../b", "", "."])
def test_a_file_name_cannot_leave_the_folder(build, tmp_path, name):
    result = dataclasses.replace(export(build("mtp"), "vllm"), files={name: "x"})
    with pytest.raises(InputError, match="inside the folder"):
        write_export(result, tmp_path / "folder")
    assert not list(tmp_path.rglob("*.sh"))


def test_a_folder_that_cannot_be_made_is_named(build, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="file"):
        write_export(export(build("mtp"), "vllm"), tmp_path / "file")


def test_importing_the_registry_loads_nothing_heavy(root):
    heavy = "{'pydantic', 'yaml', 'torch'}"
    code = f"import sys, app.exporters.registry; print(*sorted({heavy} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_is_told_to_serve_an_encoder_decoder(build, engine):
    with pytest.raises(InputError, match="encoder-decoders"):
        export(build("speculative-decoding", model="t5-xxl"), engine)


@pytest.mark.parametrize(
    ("tokens", "words"), [(1, "chain of 1 draft token ("), (2, "chain of 2 draft tokens (")]
)
def test_the_header_counts_draft_tokens_in_the_right_number(build, tokens, words):
    assert words in export(build(draft_tokens=tokens), "vllm").files["vllm-serve.sh"]
