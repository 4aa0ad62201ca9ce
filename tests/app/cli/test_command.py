"""The command itself: help, silence, misuse, pipes, and what it loads before it knows what is
asked."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from app.cli import main as entry
from costmodel.engine_library import engine_names
from costmodel.method import StopRule, VerifyRule
from costmodel.passes.deployment import Fidelity
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.errors import InfeasibleError, InputError

EVERYWHERE = ("--json", "--out", "--seed", "--quiet")
SETTING = (
    "--model",
    "--draft",
    "--device",
    "--tp",
    "--engine",
    "--dtype",
    "--kv-dtype",
    "--draft-passes",
    "--draft-bytes",
    "--set",
    "--match-rate",
    "--batch",
    "--context",
    "--draft-tokens",
)
OPTIONS = {
    "optimize": (*SETTING, "--trace", "--slo-ttft", "--slo-tpot", "--method", "--tree-nodes"),
    "predict": (
        *SETTING,
        "--trace",
        "--acceptance",
        "--tree",
        "--method",
        "--include-prefill",
        "--fidelity",
        "--explain",
        "--table",
        "--pp",
        "--ep",
        "--dp",
        "--cp",
        "--transform",
    ),
    "replay": ("--draft-tokens", "--tree", "--match-rate"),
    "reproduce": ("--rows", "--group", "--csv", "--html"),
    "score": ("--baseline", "--plot", "--html", "--csv", "--leave-out"),
    "tree": ("--acceptance", "--nodes", "--depth"),
    "traces import": ("--format", "-o", "--model", "--method", "--drafter", "--match-rate"),
    "traces inspect": ("--draft-tokens",),
    "traces compare": ("--draft-tokens", "--kind", "--plot"),
    "export": (
        "--from",
        "--batch",
        "--context",
        "--schedule",
        "--model",
        "--draft",
        "--method",
        "--draft-tokens",
        "--tree",
        "--engine-version",
        "--synthetic",
        "--acceptance-by-depth",
        "--trace",
    ),
    "record": (
        "--model",
        "--prompts",
        "--drafter",
        "--temperature",
        "--resume",
        "--level",
        "--expansion-nodes",
    ),
    "breakeven": (*SETTING, "--trace", "--acceptance", "--tree", "--method"),
    "capacity": (
        "--model",
        "--device",
        "--rate",
        "--slo-ttft",
        "--slo-tpot",
        "--requests",
        "--trace",
    ),
    "validate": (
        "--profile",
        "--replayed",
        "--from-bench",
        "--engine",
        "--server",
        "--budget",
        "--resume",
    ),
    "load": (
        "--requests",
        "--rate",
        "--users",
        "--count",
        "--duration",
        "--prompt-tokens",
        "--output-tokens",
        "--prompts",
        "--model",
        "--resume",
        "--timeout",
    ),
    "sweep": ("--resume", "--workers", "--compare", "--threshold", "--csv"),
    "observe": ("--for", "--every", "--model"),
    "devices": ("--set",),
    "models": (),
    "methods": (),
}


def installed(*words, **options):
    """The command in a process of its own, as its console script starts it."""
    script = Path(sys.executable).with_name("rooftree")
    start = (
        [str(script)]
        if script.exists()
        else [sys.executable, "-c", "from app.cli.main import main; exit(main())"]
    )
    settings = {"capture_output": True, "text": True, "timeout": 120} | options
    return subprocess.run([*start, *map(str, words)], check=False, **settings)


def all_help(verb):
    """The option that shows every option of a verb."""
    return "--help-all" if entry.VERBS[verb].begins else "--help"


@pytest.mark.parametrize("verb", ["optimize", "traces list"])
def test_help_has_a_short_name(rooftree, verb):
    assert rooftree(*verb.split(), "-h").out == rooftree(*verb.split(), "--help").out


@pytest.mark.parametrize("verb", OPTIONS)
def test_help_of_every_verb_lists_its_options(rooftree, verb):
    done = rooftree(*verb.split(), all_help(verb))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: rooftree {verb} ")
    for option in (*EVERYWHERE, *OPTIONS[verb]):
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", done.out), option


def test_choices_stand_in_the_help(rooftree):
    """What a list of names allows is read where the option is; longer lists are a verb's."""
    words = {
        verb: " ".join(rooftree(*verb.split(), all_help(verb)).out.split()).replace("- ", "-")
        for verb in (*OPTIONS, "simulate")
    }  # a line may end at the hyphen of a name
    for verb in ("optimize", "predict", "breakeven", "capacity", "simulate"):
        assert all(name in words[verb] for name in engine_names()), verb
    for verb in ("optimize", "predict", "breakeven", "capacity"):
        assert all(name in words[verb] for name in BYTES_PER_VALUE), verb
    for verb in ("optimize", "predict", "breakeven"):
        assert "`rooftree devices`" in words[verb]
    for verb in ("optimize", "predict", "replay"):
        assert all(
            rule in words[verb] for rule in get_args(StopRule) if rule not in ("length", "exit")
        ), verb
    assert all(rule in words["replay"] for rule in get_args(VerifyRule) if rule != "none")
    for verb in ("predict", "breakeven"):
        assert (
            all(name in words[verb] for name in get_args(Fidelity))
            and "`rooftree methods`" in words[verb]
        )
    assert "[[prompts]]" in words["record"]
    assert "--explain-schema" in rooftree("simulate", "--help-all").out


def test_help_of_the_command_lists_the_verbs(rooftree):
    done = rooftree("--help")
    verbs = re.findall(r"^  ([a-z-]+)  ", done.out.partition("Commands:")[2], re.MULTILINE)
    assert set(verbs) >= {verb.split()[0] for verb in OPTIONS}
    assert "..." not in done.out.partition("Commands:")[2]  # no summary is cut at 80 columns
    for verb in verbs:
        shown = rooftree(verb, "--help")
        assert (shown.code, shown.err) == (0, "") and shown.out.startswith(
            f"Usage: rooftree {verb} "
        )


def test_no_verb_is_help_and_not_success(rooftree):
    for words, usage in (
        ((), "Usage: rooftree [OPTIONS] COMMAND"),
        (("traces",), "Usage: rooftree traces"),
    ):
        done = rooftree(*words)
        assert (done.code, done.out) == (2, "") and done.err.startswith(usage)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["optimise"],
            "No such command 'optimise'. Did you mean 'optimize'?; see `rooftree --help`",
        ),
        (["traces", "imprt"], "No such command 'imprt'"),
        (["predict"], "Missing option '--model'; see `rooftree predict --help`"),
        (["predict", "--modle", "gpt2"], "No such option: --modle"),
        (["predict", "--model"], "Option '--model' requires an argument"),
        (["replay"], "Missing argument"),
        (["replay", "a.parquet", "b.parquet"], "unexpected extra argument"),
    ],
)
def test_misuse_is_one_line_that_points_to_help(rooftree, words, told):
    done = rooftree(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err and done.err.count("\n") == 1 and "--help`" in done.err


def test_quiet_prints_nothing(rooftree, files, tmp_path):
    position = tmp_path / "position.json"
    position.write_text('{"requests":[{"emitted":[1,2]}]}')
    for words in (
        (
            "optimize",
            "--trace",
            files.lookup,
            "--batch",
            "1",
            "--draft-tokens",
            "1",
            "--out",
            tmp_path,
        ),
        ("predict", "--model", "gpt2", "--method", "n-gram", "--acceptance", "0.5"),
        ("replay", files.ranks),
        ("tree", "--acceptance", files.vector, "--nodes", "4", "--out", tmp_path),
        (
            "traces",
            "import",
            position,
            "--format",
            "position-json",
            "-o",
            tmp_path / "position.parquet",
        ),
        ("traces", "inspect", files.ranks),
        (
            "export",
            "vllm",
            "--model",
            "gpt2",
            "--method",
            "n-gram",
            "--draft-tokens",
            "2",
            "--out",
            tmp_path,
        ),
        ("devices",),
        ("models", "gpt2"),
        ("methods", "n-gram"),
    ):
        done = rooftree(*words, "--quiet")
        assert (done.code, done.out, done.err) == (0, "", ""), words
        assert rooftree(*words).out, words
    assert (tmp_path / "recommendation.json").is_file() and (tmp_path / "tree-4.json").is_file()


def test_quiet_does_not_silence_the_json_asked_for(rooftree):
    assert rooftree("models", "gpt2", "--quiet", "--json").answer["models"]


def test_tables_show_the_numbers_of_the_json(rooftree, files):
    words = ("replay", files.ranks, "--draft-tokens", "2")
    (chain,) = rooftree(*words, "--json").answer["chains"]
    table = rooftree(*words).out
    assert (
        f"{chain['tokens_per_step']:.3f}" in table
        and str(chain["steps"]) in table
        and "chain:2" in table
    )


@pytest.mark.parametrize(
    "error", [InputError("a\nb", file="f\nile", key="k"), InfeasibleError("cannot\r\nbe")]
)
def test_an_error_is_one_line_whatever_it_holds(monkeypatch, capsys, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(entry, "command", lambda: fail)
    assert entry.main(["x"]) == error.exit_code
    told = capsys.readouterr().err
    assert told.startswith("rooftree: ") and len(told.splitlines()) == 1


def test_an_error_of_the_program_is_not_dressed_up_as_one_of_the_user(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(entry, "command", lambda: fail)
    with pytest.raises(ZeroDivisionError):
        entry.main(["x"])


def test_an_interrupt_ends_the_command(monkeypatch, rooftree):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("app.answers.models.models.load_model", interrupted)
    done = rooftree("models", "gpt2")
    assert (done.code, done.out) == (130, "")


def test_starting_loads_nothing_heavy():
    heavy = (
        "numpy",
        "numba",
        "pyarrow",
        "pydantic",
        "torch",
        "pandas",
        "rich",
        "transformers",
        "plotly",
        "yaml",
    )
    look = f"import sys, app.cli.main; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_small_questions_load_no_compiler_and_no_scipy(tmp_path):
    """One after another in one process: the first that loads either is the one that is shown."""
    questions = (
        (
            "predict --model llama-3.1-8b --method eagle-3 --acceptance 0.7 --batch 1,8,64,256"
            " --context 1024,8192"
        ),
        "predict --model smollm2-135m --trace smollm2-135m--prompt-lookup--greedy",
        "replay smollm2-135m--early-exit--greedy",
        "tree --acceptance 0.8,0.6,0.4",
        "optimize",
    )
    look = """
import sys
from app.cli.main import main
for i, line in enumerate(sys.argv[2:]):
    code = main([*line.split(), "--out", f"{sys.argv[1]}{i}"])
    assert (code, *(name for name in ("numba", "scipy") if name in sys.modules)) == (0,), line
"""
    command = [sys.executable, "-c", look, str(tmp_path / "answer"), *questions]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_installed_command_answers(files):
    done = installed("replay", files.ranks, "--draft-tokens", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["chains"][0]["draft_tokens"] == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("predict", "--model", "gtp2", "--acceptance", "0.5"), 2),
        (("nonsense",), 2),
        (("predict", "--model", "llama-3.1-405b", "--method", "n-gram", "--acceptance", "0.5"), 3),
    ],
)
def test_the_installed_command_fails_in_one_line(words, code):
    done = installed(*words)
    assert done.returncode == code and ("does not fit" in done.stdout) == (code == 3)
    assert done.stderr.startswith("rooftree: ") and done.stderr.count("\n") == 1


def test_the_installed_command_helps():
    done = installed("optimize", "--help")
    assert done.returncode == 0 and "--slo-tpot" in done.stdout and not done.stderr


@pytest.mark.parametrize(
    "words", [("models", "--json"), ("models", "gpt2", "--json"), ("models",), ("--help",)]
)
def test_a_reader_that_leaves_gets_no_traceback(words):
    """Both ways a pipe breaks: while an answer is written, and when the rest is flushed at the
    end."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = installed(*words, capture_output=False, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.stderr == "" and done.returncode == 1


def test_a_terminal_without_the_letters_still_gets_its_answer():
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = installed("models", "gpt2", env=environment)
    assert (done.returncode, done.stderr) == (0, "") and "gpt2" in done.stdout


def test_plain_encodings_get_plain_signs():
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    words = ("predict", "--model", "gpt2", "--draft-tokens", "0", "--device", "H100")
    done = installed(*words, env=environment | {"NO_COLOR": "1"})
    assert (done.returncode, done.stderr) == (0, "H100 is read as h100-sxm\n")
    assert done.stdout.isascii() and "\\u" not in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "named", [{"TERM": "dumb"}, {"LANG": "C"}, {"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}]
)
def test_a_terminal_that_draws_plain_letters_alone_gets_these(named):
    told = {name: text for name, text in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        done = installed(
            *("predict", "--model", "gpt2", "--draft-tokens", "0"),
            env=told | named,
            capture_output=False,
            stdout=terminal,
            stderr=terminal,
        )
    with os.fdopen(ours, "rb") as read:
        shown = read.read1(1 << 16)
    assert done.returncode == 0 and b"gpt2" in shown
    assert shown.isascii()


def test_a_file_name_that_is_no_text_does_no_harm(files, tmp_path):
    name = tmp_path / os.fsdecode(b"v\xff.json")
    name.write_bytes(files.vector.read_bytes())
    done = installed("tree", "--acceptance", name, "--nodes", "4", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["inputs"]["acceptance"] == str(name)
    missing = installed("replay", tmp_path / os.fsdecode(b"\xff.parquet"))
    assert missing.returncode == 2 and missing.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "answers/report.json"),
            "answers/report.json: No space left",
        ),
        (PermissionError(errno.EACCES, "Permission denied"), "Permission denied"),
        (OSError(), "OSError"),
        (MemoryError(), "memory does not suffice"),
    ],
)
def test_what_the_machine_refuses_is_one_line(monkeypatch, capsys, error, said):
    def fail(*given, **options):
        raise error

    monkeypatch.setattr(entry, "command", lambda: fail)
    assert entry.main([]) == 1
    written = capsys.readouterr()
    assert written.out == "" and written.err.count("\n") == 1 and said in written.err


def test_ctrl_c_says_how_to_go_on(monkeypatch, rooftree, tmp_path):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("app.answers.recordings.record.record", interrupted)
    done = rooftree("record", "--out", tmp_path / "a b")
    assert done.code == 130 and f"rooftree record --out '{tmp_path / 'a b'}' --resume" in done.err
