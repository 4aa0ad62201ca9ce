"""What our table reads from an exported command line is what the engine's own parser reads from
it."""

import importlib.util
import itertools
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from app.exporters.registry import export
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import load_engine
from costmodel.method_library import load_method, method_names
from hardware_profiles.errors import InputError
from real_runs.servers.llama_cpp.arguments import SWITCHES, VALUES, read_arguments

HERE = Path(__file__).parent
# what the engine keeps of its own words and no drafting reads
APART = {"default_template_kwargs", "speculative.draft.mparams.hf_file"}
WISHES = {
    "chain": {},
    "limits": {"max_batch": 4, "max_length": 2048},
    "synthetic": {"acceptance_by_depth": (0.7, 0.5, 0.25, 0.125, 0.1)},
}
CACHES = (None, "bf16", "int8", "fp32", "int4")
FURTHER = [
    ["--batch-size", "64", "--ubatch-size", "32", "--cache-ram", "0", "--slot-save-path", "/tmp"],
    ["--threads", "3", "--threads-batch", "2", "--host", "127.0.0.1", "--port", "0"],
    *([switch] for switch in SWITCHES),
]


def exported(version):
    """Every command line that the exporter writes for local models."""
    lines = []
    methods = [name for name in method_names() if "llama.cpp" in load_method(name).engines]
    for method, wish, cache in itertools.product(methods, WISHES.items(), CACHES):
        variants = (
            load_engine("llama.cpp")
            .options.drafting[load_method(method).engines["llama.cpp"]]
            .variants
        )
        for variant in ("", *variants):
            named = (
                {"draft_model": "draft.gguf"} if load_method(method).needs_trained_weights else {}
            )
            chosen = DecodingConfiguration(
                method=method,
                context=1024,
                draft_tokens=5,
                ngram_min=3,
                ngram_max=3,
                **named,
                **wish[1],
                deployment=DeploymentNames(model="target.gguf", kv_dtype=cache),
            )
            try:
                written = export(
                    chosen, "llama.cpp", version, variant=variant, synthetic=wish[0] == "synthetic"
                )
            except InputError:
                continue
            lines.append(shlex.split(written.command)[1:])
    return lines


def differences(cases, root):
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    done = subprocess.run(
        [
            sys.executable,
            HERE / "read_both.py",
            root / "tests" / "app" / "exporters" / "engine_parsers",
        ],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_table_reads_what_the_engines_own_parser_reads(root):
    lines = exported("new")
    assert len(lines) >= 60
    cases = [*lines, *(["--model", "a.gguf", "--threads", "1", *further] for further in FURTHER)]
    cases = [["--threads", "2", *case] for case in cases]
    read = {word for case in cases for word in case if word.startswith("--")}
    old = {"--model-draft", "--draft-max", "--draft-min", "--draft-p-min"} | {
        f"--spec-ngram-{name}" for name in ("size-n", "size-m", "min-hits")
    }
    assert read == {*VALUES, *SWITCHES} - old
    for case, differing in zip(cases, differences(cases, root), strict=True):
        assert set(differing) <= APART, (case, differing)


def test_the_older_spelling_sets_the_same_attributes():
    by_spelling = [
        [read_arguments(line) for line in exported(version)] for version in ("old", "new")
    ]
    assert len(by_spelling[0]) >= 10
    lookups = {
        f"speculative.{name}.{size}"
        for name in ("ngram_map_k", "ngram_map_k4v")
        for size in ("size_n", "size_m", "min_hits")
    }
    newer = [
        frozenset((name, str(value)) for name, value in read.items()) for read in by_spelling[1]
    ]
    for read in by_spelling[0]:
        assert (
            frozenset((name, str(value)) for name, value in read.items() if name not in lookups)
            in newer
        )


def test_the_last_flag_wins_and_rates_are_numbers():
    read = read_arguments(["--parallel", "2", "--spec-synth-rates", ".5,.25", "--parallel", "3"])
    assert read == {"n_parallel": 3, "speculative.synth_rates": [0.5, 0.25]}
    with pytest.raises(InputError, match=r"--spec-synth-rates: must be a number, got '\.5,x'"):
        read_arguments(["--spec-synth-rates", ".5,x"])
