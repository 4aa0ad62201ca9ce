"""Bad options end in exit code 2, what cannot be in 3, with one line that names the option, the
rule and the value."""

import pytest

PREDICT = "predict --model llama-3.2-1b --trace {ranks} --out {out}"
STATED = "predict --model llama-3.2-1b --method n-gram --out {out}"
OPTIMIZE = "optimize --trace {ranks} --tree-nodes 4 --out {out}"
EXPORT = "export vllm --model llama-3.2-1b --method n-gram --draft-tokens 3 --out {out}"
IMPORT = "traces import {position} --format position-json -o {out}"
TREE = "tree --acceptance {vector} --out {out}"

NAMES = [
    (f"{PREDICT} --device h100-sx", "unknown device 'h100-sx'; nearest: h100-sxm"),
    (f"{OPTIMIZE} --device h10", "unknown device 'h10'; nearest: h100-"),
    (
        "predict --model llama-3.2-1 --acceptance 0.5 --out {out}",
        "unknown model 'llama-3.2-1'; nearest: llama-3.2-1b",
    ),
    (f"{OPTIMIZE} --model gtp2", "unknown model 'gtp2'; nearest: gpt2"),
    (
        f"{PREDICT} --method eagle-33",
        "--method: unknown method 'eagle-33'; nearest: eagle-3, eagle-2, eagle",
    ),
    (f"{OPTIMIZE} --method ngramm", "--method: unknown method 'ngramm'; nearest: n-gram"),
    (f"{PREDICT} --engine vlm", "unknown engine 'vlm'; nearest: vllm"),
    (
        f"{EXPORT.replace('vllm', 'sgland')}",
        "unknown engine or tree form 'sgland'; nearest: sglang",
    ),
    (f"{PREDICT} --dtype bf17", "unknown number format 'bf17'; nearest: bf16"),
    (f"{PREDICT} --kv-dtype bf17", "unknown number format 'bf17'; nearest: bf16"),
    (
        f"{PREDICT} --fidelity wild",
        "--fidelity: must be measured, calibrated or datasheet, got 'wild'",
    ),
    (
        "traces import {position} --format position -o {out}",
        "unknown format 'position'; nearest: position-json",
    ),
    (f"{EXPORT} --method n-grams", "unknown method 'n-grams'; nearest: n-gram"),
    ("devices h10 --out {out}", "unknown device 'h10'; nearest: h100-"),
    ("models gtp2 --out {out}", "unknown model 'gtp2'; nearest: gpt2"),
    ("methods medussa --out {out}", "unknown method 'medussa'; nearest: medusa"),
    ("devices '' --out {out}", "unknown device ''"),
    (
        f"{STATED} --method speculative-decoding --acceptance 0.5 --draft gpt",
        "unknown model 'gpt'; nearest: gpt2",
    ),
    (
        f"{STATED} --method speculative-decoding --acceptance 0.5 --draft gpt2",
        "draft: must share the vocabulary of llama-3.2-1b (128256 tokens)",
    ),
    (
        f"{PREDICT} --draft gpt2",
        "draft: early-exit drafts without a model of its own; to compare this one",
    ),
]
LISTS = [
    (f"{PREDICT} --batch", 1),
    (f"{PREDICT} --context", 0),
    (f"{PREDICT} --draft-tokens", 0),
    (f"{OPTIMIZE} --batch", 1),
    (f"{OPTIMIZE} --context", 0),
    (f"{OPTIMIZE} --draft-tokens", 0),
    (f"{OPTIMIZE} --tree-nodes", 0),
    ("replay {ranks} --out {out} --draft-tokens", 0),
    (f"{TREE} --nodes", 1),
    ("traces inspect {ranks} --out {out} --draft-tokens", 0),
]
WHOLE = [
    (f"{PREDICT} --tp", ["0", "-1", "7", "1.5", "a", "nan"]),
    (f"{PREDICT} --exit-layer", ["0", "-1", "16", "1.5", "nan"]),
    (f"{PREDICT} --seed", ["-1", "1.5", "a"]),
    (f"{PREDICT} --draft-bytes 1e9 --draft-passes", ["0", "-1", "1.5", "nan"]),
    (f"{TREE} --depth", ["0", "-1", "1,,2", "1e3", "4097", "nan"]),
    (f"{EXPORT} --draft-tokens", ["-1", "4096", "1e3", "nan"]),
    (f"{EXPORT} --batch", ["0", "-1", "a"]),
    (f"{EXPORT} --context", ["-1", "a"]),
    ("record --out {out} --exit-layer", ["0", "-1", "a"]),
    ("record --out {out} --max-new-tokens", ["0", "-1", "a"]),
]
REAL = [
    (f"{STATED} --acceptance", ["-0.1", "1.1", "nan", "inf", "a"]),
    (f"{STATED} --acceptance 0.5 --match-rate", ["-0.1", "1.1", "nan", "inf", "a"]),
    ("replay {undrafted} --out {out} --match-rate", ["-0.1", "1.1", "nan", "a"]),
    (f"{OPTIMIZE} --match-rate", ["-0.1", "1.1", "nan", "a"]),
    (f"{IMPORT} --match-rate", ["-0.1", "1.1", "nan", "a"]),
    (f"{OPTIMIZE} --slo-ttft", ["0", "-1", "nan", "inf", "a"]),
    (f"{OPTIMIZE} --slo-tpot", ["0", "-1", "nan", "inf", "a"]),
    (f"{OPTIMIZE} --slo-e2e", ["0", "-1", "nan", "inf", "a"]),
    (f"{PREDICT} --draft-passes 1 --draft-bytes", ["0", "-1", "nan", "inf", "1e300", "a"]),
]
OVERRIDES = [
    ("x", "--set: an override reads device.<key>=<number>, got 'x'"),
    (
        "device.bandwidth=1",
        "--set: unknown key 'device.bandwidth'; nearest: device.bandwidth_bytes_per_s",
    ),
    ("device.name=x", "--set: unknown key 'device.name'"),
    ("device.bandwidth_bytes_per_s=-1", "device.bandwidth_bytes_per_s: must lie between"),
    ("device.bandwidth_bytes_per_s=0", "got '0'"),
    (
        "device.bandwidth_bytes_per_s=nan",
        "device.bandwidth_bytes_per_s: must be a number, in SI, got 'nan'",
    ),
    ("device.bandwidth_bytes_per_s=inf", "got 'inf'"),
]
CONTRADICTIONS = [
    (
        "predict --model llama-3.2-1b --out {out}",
        (
            "exactly one of --trace, --acceptance, --tokens-per-step and --drafter is needed where"
            " anything is drafted"
        ),
    ),
    (
        "predict --model llama-3.1-8b --method hydra --out {out}",
        "--method: nothing says what is accepted: state it by --acceptance, --tokens-per-step or",
        "--trace; neither a recording nor a figure of its chains was published, got 'hydra'",
    ),
    (
        "simulate --model llama-3.1-8b --method hydra --out {out}",
        "--method: nothing says what is accepted: state it by --acceptance",
    ),
    (
        f"{PREDICT} --acceptance 0.5",
        "--trace and --acceptance exclude each other; exactly one of them says what",
    ),
    (
        f"{STATED} --acceptance 0.5,0.7",
        "acceptance: must never increase",
        "position 2 (0.7) is accepted only in steps",
    ),
    (f"{STATED} --drafter n-gram:0.5", "--drafter names its method itself; leave out --method"),
    (
        "predict --model llama-3.2-1b --out {out} --drafter mtp:0.5 --drafter eagle-3:0.5",
        "one drafter is taken here",
    ),
    (f"{PREDICT} --method medusa", "recorded with early-exit", "write --drafter medusa:{ranks}"),
    (
        f"{STATED} --acceptance 0.5 --include-prefill",
        "--include-prefill takes its lengths from a --trace",
    ),
    ("tree --out {out}", "--acceptance, --tokens-per-step or --drafter is needed"),
    (
        "tree --acceptance {ranks} --drafter medusa:0.5 --out {out}",
        "--acceptance: says all; leave out",
    ),
    (
        "tree --acceptance 0.5 --tokens-per-step 2 --out {out}",
        "--acceptance and --tokens-per-step exclude each other",
    ),
    ("tree --acceptance 0.5,0.6 --out {out}", "must never increase"),
    (f"{PREDICT} --draft-passes 2", "--draft-passes and --draft-bytes go together"),
    (f"{PREDICT} --draft-bytes 1e9", "--draft-passes and --draft-bytes go together"),
    ("export vllm --out {out}", "--config FILE, or --model with --method"),
    (
        "export vllm --model gpt2 --method n-gram --out {out}",
        "--config FILE, or --model with --method",
    ),
    ("devices --set device.power_w=3 --out {out}", "--set needs the name of one device"),
    (
        "tree --acceptance {ranks} --nodes 1 --out {out}",
        "a tree from a trace needs at least 2 nodes and 2 levels",
    ),
    (
        "traces import {position} {position} --format position-json -o {out}",
        "position-json takes 1 to 1 files, got 2",
    ),
    (f"{IMPORT} --drafter x", "drafter: position-json takes no such option, got 'x'"),
]
INEXPRESSIBLE = [
    (
        "export sglang --model gpt2 --method eagle-3 --draft x --tree {tree-branch} --out {out}",
        "tree: sglang 0.5",
    ),
    (
        "export llama.cpp --model gpt2 --method eagle-3 --draft x --tree {tree-branch} --out {out}",
        "llama.cpp",
    ),
    (f"{EXPORT} --engine-version 0.1", "version: vllm: the rules of 0.", "got '0.1'"),
    (f"{EXPORT} --engine-version new", "got 'new'"),
    (f"{EXPORT} --synthetic", "--acceptance-by-depth"),
    (
        f"{EXPORT} --synthetic --acceptance-by-depth 0.5,a,0.1",
        "--acceptance-by-depth: must be one rate",
        "got '0.5,a,0.1'",
    ),
    (
        f"{EXPORT} --synthetic --acceptance-by-depth 0.5,0.6,0.7",
        "--acceptance-by-depth: ",
        "never rise with depth",
    ),
    (f"{EXPORT} --synthetic --acceptance-by-depth nan,0,0", "--acceptance-by-depth: ", "nan"),
    (
        "export vllm --from {answer} --batch 7 --out {out}",
        "{answer}: choices: holds no such choice",
        "got (7, None)",
    ),
]
INFEASIBLE = [
    (
        f"{TREE} --nodes 64 --depth 2",
        "nodes: no tree has that many nodes within 2 levels",
        "got 64",
    ),
]


@pytest.mark.parametrize(
    ("line", "fragments"), [(line, rest) for line, *rest in NAMES + CONTRADICTIONS]
)
def test_names_and_contradictions(refused, line, fragments):
    refused(line, 2, *fragments)


@pytest.mark.parametrize(
    "text", ["1,,2", "a", "1e3", "1.5", "nan", "-1", "", ",", "1_0", "٣", "9" * 30, "100000001"]
)
@pytest.mark.parametrize(("line", "least"), LISTS)
def test_lists_of_numbers(refused, line, least, text):
    option = line.rpartition(" ")[2]
    refused(f"{line} {text or chr(39) * 2}", 2, f"rooftree: {option}: must ", f"got {text!r}")


@pytest.mark.parametrize(("line", "least"), [case for case in LISTS if case[1]])
def test_nothing_is_no_batch(refused, line, least):
    refused(f"{line} 0", 2, f"must lie in {least}..", "got '0'")


@pytest.mark.parametrize(
    ("line", "text"), [(line, text) for line, texts in WHOLE for text in texts]
)
def test_whole_numbers(refused, line, text):
    option = line.rpartition(" ")[2].removeprefix("--")
    assert option in refused(f"{line} {text}", 2, "got ").replace("_", "-")


@pytest.mark.parametrize(("line", "text"), [(line, text) for line, texts in REAL for text in texts])
def test_numbers(refused, line, text):
    refused(f"{line} {text}", 2, f"rooftree: {line.rpartition(' ')[2]}: ", "got ")


@pytest.mark.parametrize(("text", "fragment"), OVERRIDES)
@pytest.mark.parametrize("line", [PREDICT, OPTIMIZE, "devices l4 --out {out}"])
def test_overrides(refused, line, text, fragment):
    refused(f"{line} --set {text}", 2, fragment)


@pytest.mark.parametrize(("line", "fragments"), [(line, rest) for line, *rest in INEXPRESSIBLE])
def test_what_an_engine_cannot_express(refused, line, fragments):
    refused(line, 2, *fragments)


@pytest.mark.parametrize(("line", "fragments"), [(line, rest) for line, *rest in INFEASIBLE])
def test_what_cannot_be(refused, line, fragments):
    refused(line, 3, *fragments)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            f"{PREDICT} --batch 100000",
            ["batch 100000, context 1024, 0 draft tokens needs", "usable", "; batch "],
        ),
        (f"{PREDICT} --context 100000000", ["context 100000000"]),
        (f"{PREDICT} --model llama-3.1-405b --batch 1", ["llama-3.1-405b", "tp 16 fits"]),
        (
            f"{OPTIMIZE} --model llama-3.1-405b",
            ["llama-3.1-405b on h100-sxm at batch 1", "usable", "tp 16 fits"],
        ),
        (
            f"{OPTIMIZE} --batch 1 --slo-tpot 0.001",
            ["no configuration meets mean TPOT <= 0.001 ms"],
        ),
        (
            f"{OPTIMIZE} --batch 1 --slo-ttft 0.001",
            ["no configuration meets mean TTFT <= 0.001 ms"],
        ),
    ],
)
def test_what_cannot_be_in_any_cell_is_shown_before_it_ends(ended, tmp_path, line, said):
    done = ended(line)
    assert done.code == 3 and done.err.startswith("rooftree: ") and done.err.count("\n") == 1
    assert "does not fit" in done.out or "misses limits" in done.out
    assert not list((tmp_path / "out").glob("*/*")), "no engine file is written for what cannot run"
    for fragment in said:
        assert fragment in done.out + done.err


def test_numbers_that_are_allowed_are_taken(ended, tmp_path):
    """The other side of every bound above, so that a rule that refuses everything would be seen."""
    lines = [
        f"{PREDICT} --batch ~1~,~2 --context 0 --draft-tokens 0 --tp 2 --exit-layer 15 --seed 0",
        f"{STATED} --acceptance 0",
        f"{STATED} --acceptance 1 --match-rate 0",
        f"{PREDICT} --draft-passes 1 --draft-bytes 0.5",
        f"{TREE} --nodes 1 --depth 1",
        EXPORT,
        f"{OPTIMIZE} --batch 1 --slo-tpot 1e9 --slo-ttft 1e9",
        "export vllm --from {answer} --out {out}",
        IMPORT,
    ]
    for index, line in enumerate(lines):
        done = ended(line, out=tmp_path / str(index))
        assert done.code == 0, (line, done.err)
