import shlex
import subprocess

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.exporters.dialect import Dialect
from app.exporters.registry import ENGINES, export
from app.exporters.result import command_line, comments, json_lines, script

HOSTILE = [
    "plain/name",
    "two words",
    "it's",
    'a "quoted" name',
    "$(touch owned)",
    "`touch owned`",
    "a;touch owned",
    "a\\nb",
    "$HOME",
    "*",
    "modèle/ünï",
]


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=5)
)
def test_a_command_line_reads_back_as_its_arguments(arguments):
    line = command_line(["engine", *arguments])
    assert shlex.split(line) == ["engine", *arguments]


@given(st.text())
def test_a_comment_stays_one_printable_line(text):
    (line,) = comments([text]).splitlines()
    assert line.startswith("#")
    assert line.isprintable()
    assert yaml.safe_load(f"{line}\nkey: 1\n") == {"key": 1}


def test_json_lines_are_the_same_json_with_a_line_per_key():
    text = json_lines({"a": [[1, 16, 5], [17, 64, 3]], "b": "x"})
    assert text == '{\n  "a": [[1, 16, 5], [17, 64, 3]],\n  "b": "x"\n}\n'


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_scripts_run_the_very_command_and_nothing_else(build, tmp_path, engine, name):
    model = f"{name}.gguf"
    method = "draft_model" if engine == "llama.cpp" else "eagle3"
    result = export(
        build(method, model=model, draft_model=f"d/{model}", provenance={"trace": f"x\n{name}"}),
        engine,
    )
    written = tmp_path / "exported files"
    stubs = tmp_path / "bin"
    for folder in (written, stubs):
        folder.mkdir()
    for program in ("vllm", "python3", "trtllm-serve", "llama-server"):
        stub = stubs / program
        stub.write_text(f'#!/bin/sh\nprintf "%s\\0" {program} "$@"\n')
        stub.chmod(0o755)
    for file, content in result.files.items():
        (written / file).write_text(content)
    (serve,) = [file for file in result.files if file.endswith(".sh")]
    run = subprocess.run(
        ["/bin/sh", str(written / serve)],
        env={"PATH": f"{stubs}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    seen = [argument.decode() for argument in run.stdout.split(b"\0")[:-1]]
    expected = [
        f"{written}/{part}" if part in result.files else part
        for part in shlex.split(result.command)
    ]
    assert seen == expected
    assert model in seen
    assert not (tmp_path / "owned").exists()


def test_a_script_exports_its_environment_before_it_starts():
    text = script(
        ["about"],
        ["engine", "--flag", "-1", "--file", "f.json"],
        files=["f.json"],
        environment={"A": "b c"},
    )
    assert text.splitlines() == [
        "#!/bin/sh",
        "# about",
        "set -eu",
        'here=$(cd -- "$(dirname -- "$0")" && pwd)',
        "export A='b c'",
        "exec engine \\",
        "  --flag -1 \\",
        '  --file "$here"/f.json',
    ]


def test_a_refusal_names_engine_version_key_rule_and_value():
    error = Dialect(engine="vllm", version="0.28.0", releases=("0.26.0", "0.29.0")).refusal(
        "tree", "no trees", 7
    )
    assert str(error) == "tree: vllm 0.28.0: no trees, got 7"


@pytest.mark.parametrize("engine", ENGINES)
def test_headers_state_what_was_checked_and_where_the_numbers_come_from(build, engine):
    choice = build(
        "n-gram",
        model="m.gguf",
        ngram_max=1,
        context=4096,
        provenance={"device": "h100-sxm", "acceptance": "borrowed"},
    )
    result = export(choice, engine)
    text = "".join(result.files.values())
    for part in (
        f"{engine} {result.version}",
        "checked against",
        "4096",
        "h100-sxm",
        "borrowed",
        *result.notes,
    ):
        assert part in text
