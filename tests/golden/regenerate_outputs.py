"""Which outputs of verbs changed against the committed ones? `--write` makes the present ones the
committed ones.

Run by `make golden`. Numbers are left out of what is kept, so that it changes with words and layout
alone; the numbers have laws of their own in `test_outputs.py`.
"""

import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.cli.main import main

FOLDER = Path(__file__).parent / "outputs"
RECORDED = "smollm2-135m--prompt-lookup--greedy"
STATED = (
    "--model",
    "llama-3.1-8b",
    "--device",
    "h100-sxm",
    "--method",
    "eagle-3",
    "--acceptance",
    "0.8,0.6,0.4",
)
LOAD = ("--rate", "10", "--prompt", "800", "--output", "200", "--slo-tpot", "30")
CASES: Mapping[str, Sequence[str]] = {
    "help": ("--help",),
    "optimize": (
        "optimize",
        *STATED,
        "--batch",
        "1,8,4000",
        "--draft-tokens",
        "1,3",
        "--out",
        "{out}",
    ),
    "optimize-lists": (
        "optimize",
        *STATED,
        "--device",
        "h100-sxm,l4",
        "--batch",
        "1,64",
        "--out",
        "{out}",
    ),
    "optimize-limits": ("optimize", *STATED, "--batch", "1,8", "--slo-tpot", "6", "--out", "{out}"),
    "predict": ("predict", *STATED, "--draft-tokens", "0,3"),
    "predict-lists": ("predict", *STATED, "--model", "llama-3.1-8b,llama-3.1-70b", "--batch", "1"),
    "predict-plan": (
        "predict",
        "--model",
        "deepseek-v3",
        "--device",
        "h200-sxm",
        "--tp",
        "8",
        "--dp",
        "2",
        "--ep",
        "16",
        "--method",
        "mtp",
        "--acceptance",
        "0.85",
        "--draft-tokens",
        "0,1",
        "--batch",
        "64",
    ),
    "predict-infeasible": (
        "predict",
        *STATED,
        "--device",
        "l4",
        "--batch",
        "64",
        "--draft-tokens",
        "3",
    ),
    "breakeven": ("breakeven", *STATED, "--draft-tokens", "3"),
    "capacity": ("capacity", "--model", "llama-3.1-8b", "--device", "h100-sxm,l4", *LOAD),
    "replay": ("replay", "{recorded}", "--draft-tokens", "1,5"),
    "score": ("score", str(FOLDER.parent / "runs.csv")),
    "tree": (
        "tree",
        "--acceptance",
        "smollm2-135m--early-exit--greedy",
        "--nodes",
        "8,16",
        "--depth",
        "5",
    ),
    "simulate": (
        "simulate",
        "--model",
        "llama-3.1-8b",
        "--rate",
        "4",
        "--count",
        "20",
        "--prompt-tokens",
        "500",
        "--output-tokens",
        "50",
        "--rates",
        "2",
    ),
    "export": (
        "export",
        "vllm",
        "--model",
        "llama-3.1-8b",
        "--method",
        "n-gram",
        "--draft-tokens",
        "3",
        "--out",
        "{out}",
    ),
    "devices": ("devices", "l4"),
    "models": ("models", "gpt2"),
    "methods": ("methods", "n-gram"),
    "traces-inspect": ("traces", "inspect", "{recorded}"),
    "traces-list": ("traces", "list", "--model", "vicuna-7b"),
    "traces-losses": ("traces", "losses", "gpu/vicuna-7b--medusa--greedy", "--device", "l40s"),
    "traces-compare": ("traces", "compare", "{recorded}"),
    "acceptance": ("acceptance", "show", "eagle-3", "llama-3.1-8b"),
}


def ended(case: str, *more: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a case."""
    from traces.library import trace_file

    recorded = str(trace_file(RECORDED))
    out, err = io.StringIO(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main([*(word.format(out=folder, recorded=recorded) for word in CASES[case]), *more])
    return (
        code,
        out.getvalue().replace(folder, "OUT").replace(str(Path(recorded).parent), "RECORDED"),
        err.getvalue(),
    )


def without_numbers(text: str) -> str:
    """A text whose numbers are signs, and whose columns keep no width."""
    signs = re.sub(r"(?<![\w.-])\d(?:[\d,]*\d)?(?:\.\d+)?(?!\w)", "#", text)
    for pattern, sign in (
        (r"[ \t]+(?=\n)", ""),
        (r"(?<=\S) {2,}", "  "),
        (r"\n  (?=[^\s\d])", " "),
        (r"(?m)^ +", " "),
        ("─{2,}", "──"),
    ):
        signs = re.sub(pattern, sign, signs)
    return signs


def kept(case: str) -> str:
    """What is kept of a case: its exit code, and both of its streams without numbers."""
    code, out, err = ended(case)
    return f"exit code {code}\n{without_numbers(out)}{without_numbers(err)}"


def changed() -> dict[str, str]:
    """Cases whose output is not the committed one, and what it is now."""
    now = {case: kept(case) for case in CASES}
    files = {case: FOLDER / f"{case}.txt" for case in CASES}
    return {
        case: text
        for case, text in now.items()
        if not files[case].is_file() or files[case].read_text() != text
    }


if __name__ == "__main__":
    found = changed()
    for case, text in found.items():
        print(f"{case} changed")
        if "--write" in sys.argv[1:]:
            (FOLDER / f"{case}.txt").write_text(text)
    sys.exit(bool(found) and "--write" not in sys.argv[1:])
