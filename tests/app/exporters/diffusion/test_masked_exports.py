"""Configurations of masked decoding: what is written is what parsers rebuilt from the programs'
records read.

Passes and tokens are counted once more as each program's code counts them.
"""

import argparse
import ast
import json
import shlex
import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.exporters.registry import ENGINES, MASKED_PROGRAMS, export, write_export
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import load_refining
from costmodel.method_library import load_method, method_names
from hardware_profiles.errors import InputError, UnknownNameError
from tests.every import every
from traces.kinds.refine_policy import COMMIT_RULES, RefinePolicy
from traces.replay.confidence.rules import closed_form_passes

MODELS = {
    "sglang": "llada2.0-mini",
    "lmdeploy": "JetLM/SDAR-8B-Chat",
    "fast-dllm": "llada-8b",
    "dinfer": "llada-8b",
}
TYPES = {
    "int": int,
    "float": float,
    "text": str,
    "bool": lambda text: {"True": True, "False": False}[text],
}
confidences = st.floats(0, 1, allow_subnormal=False).map(lambda value: round(value, 6))


def masked(program, policy=None, method="fast-dllm", **changes):
    where = DeploymentNames(**{"model": MODELS[program]} | changes.pop("where", {}))
    return DecodingConfiguration(deployment=where, method=method, refine=policy, **changes)


def parser_of(program):
    """A command line's parser, from the settings of the program's record alone."""
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name, setting in load_refining(program).settings.items():
        parser.add_argument(name, type=TYPES[setting.kind], choices=setting.choices or None)
    return parser


def read(program, result):
    words = shlex.split(result.command)
    first = next(place for place, word in enumerate(words) if word.startswith("--"))
    return vars(parser_of(program).parse_known_args(words[first:])[0])


@given(confidences, st.integers(0, 9), st.integers(1, 300))
def test_sglang_reads_block_and_threshold(confidence, power, batch):
    policy = RefinePolicy(
        commit="threshold", at={"confidence": confidence}, block_tokens=2**power, cache="dual"
    )
    result = export(masked("sglang", policy, max_batch=batch), "sglang")
    flags = read("sglang", result)
    assert (flags["dllm_algorithm"], flags["max_running_requests"]) == ("LowConfidence", batch)
    keys = yaml.safe_load(result.files[flags["dllm_algorithm_config"]])
    assert keys == {"block_size": 2**power, "threshold": confidence}
    assert isinstance(keys["threshold"], float) and set(keys) <= set(
        load_refining("sglang").keys["LowConfidence"]
    )


def test_sglang_commits_one_token_a_pass_where_nothing_is_beyond_its_threshold():
    policy = RefinePolicy(commit="static", block_tokens=32, cache="dual")
    result = export(masked("sglang", policy), "sglang")
    assert yaml.safe_load(result.files["sglang-dllm.yaml"])["threshold"] == 1.0
    assert "--max-running-requests 1" in result.command and any(
        "one request" in note for note in result.notes
    )
    with pytest.raises(InputError, match="no setting") as refused:
        export(
            masked("sglang", RefinePolicy(commit="static", at={"tokens": 2}, cache="dual")),
            "sglang",
        )
    assert refused.value.key == "refine.at.tokens"


@given(confidences, st.integers(0, 7), st.integers(1, 20_000))
def test_lmdeploy_reads_flags_and_keys_alike(confidence, power, batch):
    policy = RefinePolicy(
        commit="threshold", at={"confidence": confidence}, block_tokens=2**power, cache="dual"
    )
    result = export(
        masked("lmdeploy", policy, method="sdar", max_batch=batch, max_length=4096), "lmdeploy"
    )
    flags = read("lmdeploy", result)
    assert flags["backend"] == "pytorch"
    keys = json.loads(result.files["lmdeploy-engine-config.json"])
    assert {name: flags[name] for name in keys} == keys
    assert set(keys) <= set(load_refining("lmdeploy").keys["PytorchEngineConfig"])
    assert (keys["dllm_block_length"], keys["session_len"]) == (2**power, 4096)
    assert keys["dllm_confidence_threshold"] == confidence
    prefill = keys.get("max_prefill_token_num", 8192)
    assert (
        min(batch, prefill // 2**power) == batch == keys["max_batch_size"]
    )  # it would lower the batch to that


@given(st.integers(1, 16), st.integers(1, 64))
def test_lmdeploy_commits_the_share_that_was_meant_or_refuses(tokens, block):
    policy = RefinePolicy(
        commit="static", at={"tokens": min(tokens, block)}, block_tokens=block, cache="dual"
    )
    choice = masked("lmdeploy", policy, method="sdar")
    if block % policy.at["tokens"]:
        with pytest.raises(InputError, match="whole number of passes"):
            export(choice, "lmdeploy")
        return
    flags = read("lmdeploy", export(choice, "lmdeploy"))
    assert flags["dllm_unmasking_strategy"] == "low_confidence_static"
    steps = flags["dllm_denoising_steps"]
    assert max(1, min(block // steps, block)) == policy.at["tokens"]


def model_args(result):
    words = shlex.split(result.command)
    return dict(word.split("=", 1) for word in words[words.index("--model_args") + 1].split(","))


@pytest.mark.parametrize(
    ("cache", "flags"),
    [
        ("none", (None, None)),
        ("prefix", ("True", None)),
        ("dual", ("True", "True")),
    ],
)
@given(confidence=confidences)
def test_fast_dllm_reads_threshold_and_cache(cache, flags, confidence):
    policy = RefinePolicy(
        commit="threshold", at={"confidence": confidence}, block_tokens=32, cache=cache
    )
    keys = model_args(export(masked("fast-dllm", policy), "fast-dllm"))
    assert (keys.get("use_cache"), keys.get("dual_cache")) == flags
    assert float(keys["threshold"]) == confidence and "factor" not in keys
    assert int(keys["gen_length"]) % int(keys["block_length"]) == 0
    assert int(keys["steps"]) % (int(keys["gen_length"]) // int(keys["block_length"])) == 0


@given(st.integers(1, 64), st.integers(0, 6), st.sampled_from(["static", "random"]))
def test_fast_dllm_takes_the_passes_that_were_meant(tokens, power, commit):
    policy = RefinePolicy(commit=commit, at={"tokens": tokens}, block_tokens=2**power)
    keys = model_args(export(masked("fast-dllm", policy, method="llada"), "fast-dllm"))
    canvas, block, steps = (int(keys[name]) for name in ("gen_length", "block_length", "steps"))
    blocks = canvas // block
    assert steps % blocks == 0 and canvas % block == 0
    each = steps // blocks
    shares = [
        block // each + (step < block % each) for step in range(each)
    ]  # as its code spreads a block's tokens
    assert sum(shares) == block and min(shares) >= 1 and max(shares) <= tokens
    assert steps == closed_form_passes(policy, canvas)
    assert (keys.get("remasking"), "threshold" in keys) == (
        "random" if commit == "random" else None,
        False,
    )


@pytest.mark.parametrize("block", [32, 48, 100, 1000])
def test_a_methods_canvas_becomes_whole_blocks(block):
    policy = RefinePolicy(commit="threshold", at={"confidence": 0.9}, block_tokens=block)
    canvas = int(model_args(export(masked("fast-dllm", policy), "fast-dllm"))["gen_length"])
    assert (
        canvas % block == 0 and 0 <= canvas - load_method("fast-dllm").refine.canvas_tokens < block
    )


def test_fast_dllms_factor_came_later():
    choice = masked("fast-dllm", RefinePolicy(commit="factor", at={"factor": 1.5}, cache="dual"))
    assert model_args(export(choice, "fast-dllm"))["factor"] == "1.5"
    with pytest.raises(InputError, match="factor exists from 9980433 on"):
        export(choice, "fast-dllm", "24cc59e")
    with pytest.raises(InputError, match="one request at a time"):
        export(
            masked("fast-dllm", RefinePolicy(commit="threshold"), max_batch=2),
            "fast-dllm",
            "24cc59e",
        )
    with pytest.raises(InputError, match="must divide 128"):
        export(masked("fast-dllm", RefinePolicy(commit="threshold"), max_batch=3), "fast-dllm")


@pytest.mark.parametrize(
    ("model", "policy", "wanted"),
    [
        ("llada-8b", {"cache": "dual"}, ("dual", False, 126_336, "vllm")),
        ("llada-8b", {"cache": "none"}, ("", False, 126_336, "vllm")),
        ("llada-8b", {"cache": "prefix", "stop": "end_token"}, ("prefix", False, 126_336, "vllm")),
        ("llada2.0-mini", {"cache": "dual"}, ("dual", True, 156_895, "sglang")),
    ],
)
def test_dinfer_answers_with_the_settings_beside_its_script(tmp_path, model, policy, wanted):
    choice = masked(
        "dinfer",
        RefinePolicy(commit="threshold", block_tokens=32, **policy),
        where={"model": model},
    )
    result = export(choice, "dinfer")
    settings = json.loads(result.files["dinfer-settings.json"])
    record = load_refining("dinfer")
    for group, keys in settings.items():
        known = record.settings if group == "serving" else record.keys[group]
        for name, value in keys.items():
            known[name].check(name, value)
    sampling = settings["SamplingParams"]
    found = (
        sampling["cache"],
        sampling["use_bd"],
        sampling["mask_id"],
        settings["serving"]["backend"],
    )
    assert found == wanted and sampling["early_stop"] == (choice.refine.stop == "end_token")
    ast.parse(result.files["dinfer-answer.py"])
    write_export(result, tmp_path)
    (tmp_path / "dinfer.py").write_text(STAND_IN)
    (tmp_path / "transformers.py").write_text(TOKENIZER)
    done = subprocess.run(
        [sys.executable, "dinfer-answer.py"],
        cwd=tmp_path,
        input="a\nb\n",
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": ""},
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [settings, settings]


def test_dinfers_credit_has_numbers_of_its_own():
    result = export(
        masked("dinfer", RefinePolicy(commit="credit", at={"confidence": 0.8})), "dinfer"
    )
    sampling = json.loads(result.files["dinfer-settings.json"])["SamplingParams"]
    assert (sampling["use_credit"], sampling["threshold"]) == (True, 0.8)
    assert any("every entry of the vocabulary" in note for note in result.notes)
    with pytest.raises(InputError, match="no setting") as refused:
        export(masked("dinfer", RefinePolicy(commit="credit", at={"weight": 1.0})), "dinfer")
    assert refused.value.key == "refine.at.weight"
    assert export(masked("dinfer", method="creditdecoding"), "dinfer").files


STAND_IN = """
import json
class SamplingParams:
    def __init__(self, **keys): self.keys = keys
class Tokens(list):
    def __getitem__(self, place): return self[0] if isinstance(place, int) else list.__getitem__(self, 0)
class DiffusionLLMServing:
    def __init__(self, sample_params, **keys): self.said = {"SamplingParams": sample_params.keys, "serving": keys}
    def generate(self, prompt, **keys): return Tokens([{**self.said, "generate": keys}])
    def stop_serving(self): pass
"""
TOKENIZER = """
import json
class Prompt: shape = (1, 3)
class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, name, trust_remote_code): return cls()
    def apply_chat_template(self, said, add_generation_prompt, return_tensors): return Prompt()
    def decode(self, tokens, skip_special_tokens): return json.dumps(tokens)
"""


@pytest.mark.parametrize("program", MASKED_PROGRAMS)
@every("commit", sorted(COMMIT_RULES))
def test_every_rule_is_written_or_refused_by_name(program, commit):
    record = load_refining(program)
    for cache in ("none", "prefix", "dual"):
        policy = RefinePolicy(commit=commit, block_tokens=32, cache=cache)
        choice = masked(program, policy)
        if commit in record.rules and cache in record.caches:
            assert export(choice, program).files
            continue
        with pytest.raises(InputError, match=f"{program} {record.default}") as refused:
            export(choice, program)
        assert refused.value.key in ("refine.commit", "refine.cache") and refused.value.value in (
            commit,
            cache,
        )


@pytest.mark.parametrize("engine", sorted({*ENGINES, *MASKED_PROGRAMS}))
@every("method", [name for name in method_names() if load_method(name).refine is not None])
def test_no_refining_method_is_written_as_plain_decoding(engine, method):
    choice = masked("fast-dllm", method=method, where={"model": MODELS.get(engine, "llada-8b")})
    if load_method(method).drafts:
        return
    try:
        result = export(choice, engine)
    except InputError as error:
        assert engine in str(error) and error.exit_code == 2
        return
    assert engine in MASKED_PROGRAMS and not any("plain decoding" in note for note in result.notes)


@pytest.mark.parametrize(
    ("program", "changes", "key", "match"),
    [
        ("sglang", {"where": {"model": "llada-8b"}}, "deployment.model", "this one is llada"),
        (
            "sglang",
            {"where": {"model": "llada2.0-mini", "pipeline_parallel": 2}},
            "pipeline_parallel",
            "switches",
        ),
        (
            "lmdeploy",
            {"where": {"model": "x/sdar", "expert_parallel": 2, "tensor_parallel": 2}},
            "expert_parallel",
            "not looked up",
        ),
        ("lmdeploy", {"where": {"model": "x/sdar", "dtype": "fp8"}}, "dtype", "fp16, bf16"),
        (
            "fast-dllm",
            {"where": {"model": "llada-8b", "tensor_parallel": 2}},
            "tensor_parallel",
            "not looked up",
        ),
        ("dinfer", {"where": {"model": "some/model"}}, "deployment.model", "mask is known"),
        (
            "dinfer",
            {"where": {"model": "llada2.0-mini"}, "method": "llada"},
            "refine.commit",
            "threshold, credit alone",
        ),
    ],
)
def test_what_a_program_does_not_have_is_refused_by_key(program, changes, key, match):
    with pytest.raises(InputError, match=match) as refused:
        export(masked(program, **changes), program)
    assert refused.value.key == key


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        (RefinePolicy(commit="threshold", cache="dual", delimiters=(7,)), "refine.delimiters"),
        (RefinePolicy(commit="threshold", cache="dual", stop="end_token"), "refine.stop"),
    ],
)
def test_blocks_that_end_early_and_canvases_that_are_not_filled_are_refused(policy, key):
    with pytest.raises(InputError) as refused:
        export(masked("fast-dllm", policy), "fast-dllm")
    assert refused.value.key == key


def test_options_of_drafts_and_unknown_releases_are_refused():
    choice = masked("sglang", RefinePolicy(commit="threshold", cache="dual"))
    for options in ({"synthetic": True}, {"variant": "ngram_gpu"}):
        with pytest.raises(InputError, match="belongs to drafts"):
            export(choice, "sglang", **options)
    with pytest.raises(UnknownNameError, match=r"0\.5\.23"):
        export(choice, "sglang", "0.5.22")
    plain = DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b"))
    with pytest.raises(InputError, match="masked blocks alone"):
        export(plain, "lmdeploy")


@pytest.mark.parametrize("program", MASKED_PROGRAMS)
def test_records_name_rules_and_models_once_and_say_where_they_were_read(program):
    record = load_refining(program)
    assert (
        record.name == program
        and record.source
        and record.rules
        and len(set(record.models)) == len(record.models)
    )
    assert set(record.caches) == {"none", "prefix", "dual"} or record.cache_rule
    for form in record.rules.values():
        assert not form.first or form.first in record.releases
