"""Where and in which formats a model runs, as every engine spells it."""

import itertools
import re
import shlex
import subprocess

import pytest
import yaml

from app.exporters.registry import export
from costmodel.configuration import DeploymentNames
from hardware_profiles.errors import InputError

LARGE = {"model": "deepseek-ai/DeepSeek-V3", "data_parallel": 16, "expert_parallel": 16}


def flags_of(result):
    words = shlex.split(result.command)
    return {
        word: words[at + 1] if at + 1 < len(words) else ""
        for at, word in enumerate(words)
        if word.startswith("-")
    }


@pytest.fixture(scope="session")
def spread(build):
    """A configuration on several devices: MTP with one draft token unless arguments say
    otherwise."""

    def make(
        method="mtp", *, draft_tokens=1, max_batch=None, max_length=None, schedule=(), **where
    ):
        changes = {"schedule": schedule} if schedule else {"draft_tokens": draft_tokens}
        return build(
            method,
            deployment=DeploymentNames(**({"model": "org/target"} | where)),
            max_batch=max_batch,
            max_length=max_length,
            **changes,
        )

    return make


def test_two_nodes_of_eight_run_attention_on_every_device_and_spread_the_experts(spread):
    vllm = flags_of(export(spread(**LARGE), "vllm"))
    assert vllm["--data-parallel-size"] == "16" and "--enable-expert-parallel" in vllm
    assert (vllm["--nnodes"], vllm["--node-rank"], vllm["--master-addr"]) == (
        "2",
        "$NODE_RANK",
        "$HEAD_ADDRESS",
    )
    sglang = flags_of(export(spread(**LARGE), "sglang"))
    assert (sglang["--tp-size"], sglang["--attn-dp-size"], sglang["--ep-size"]) == (
        "16",
        "16",
        "16",
    )
    assert (sglang["--nnodes"], sglang["--dist-init-addr"]) == ("2", "$HEAD_ADDRESS:5000")
    result = export(spread(**LARGE), "tensorrt-llm")
    assert result.command.startswith(
        "srun --mpi pmix --nodes 2 --ntasks 16 --ntasks-per-node 8 trtllm-llmapi-launch"
    )
    assert yaml.safe_load(result.files["tensorrt-llm-config.yaml"])["enable_attention_dp"] is True
    assert "--nnodes" not in flags_of(export(spread(**LARGE), "vllm", node_devices=16))


@pytest.mark.parametrize(("rank", "headless"), [("0", False), ("1", True)])
def test_one_script_starts_every_node(spread, tmp_path, rank, headless):
    """The script runs as it stands, with a stand-in for vLLM that prints its arguments."""
    path, program = tmp_path / "serve.sh", tmp_path / "vllm"
    path.write_text(export(spread(**LARGE), "vllm").files["vllm-serve.sh"])
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    settings = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NODE_RANK": rank, "HEAD_ADDRESS": "10.0.0.1"}
    run = subprocess.run(["sh", path], capture_output=True, text=True, env=settings, check=True)
    assert f"--node-rank {rank} --master-addr 10.0.0.1" in run.stdout
    assert ("--headless" in run.stdout) == headless
    missing = subprocess.run(
        ["sh", path], capture_output=True, text=True, env={"PATH": settings["PATH"]}, check=False
    )
    assert missing.returncode != 0 and "0 on the first node" in missing.stderr


@pytest.mark.parametrize(
    ("engine", "where", "key"),
    [
        ("vllm", {"data_parallel": 4, "expert_parallel": 2}, "expert_parallel"),
        ("vllm", {"context_parallel": 2}, "context_parallel"),
        ("vllm", {"tensor_parallel": 4, "expert_parallel": 3}, "expert_parallel"),
        ("vllm", {"tensor_parallel": 9}, "nodes"),
        ("sglang", {"pipeline_parallel": 2}, "pipeline_parallel"),
        ("tensorrt-llm", {"tensor_parallel": 2, "data_parallel": 2}, "tensor_parallel"),
        ("llama.cpp", {"pipeline_parallel": 2}, "pipeline_parallel"),
        ("vllm", {"kv_dtype": "int8"}, "kv_dtype"),
        ("sglang", {"kv_dtype": "int4"}, "kv_dtype"),
    ],
)
def test_what_an_engine_cannot_spread_or_store_is_refused(spread, engine, where, key):
    with pytest.raises(InputError, match=re.escape(engine)) as caught:
        export(spread(**where), engine)
    assert caught.value.key == key


def test_drafting_that_a_server_refuses_across_groups_is_refused_here(spread):
    for choice in (
        spread("n-gram", draft_tokens=3, data_parallel=2),
        spread("speculative-decoding", draft_tokens=3, data_parallel=2),
        spread("eagle-3", schedule=((1, 8, 3), (9, 64, 0)), data_parallel=2),
    ):
        with pytest.raises(InputError, match="attention data parallelism"):
            export(choice, "sglang")
    with pytest.raises(InputError, match="under data parallelism"):
        export(spread("eagle-3", schedule=((1, 8, 3), (9, 64, 0)), data_parallel=2), "vllm")
    assert "--nnodes" in export(spread(tensor_parallel=16), "vllm", "0.11.2").command
    with pytest.raises(InputError, match="Ray"):
        export(spread("n-gram", draft_tokens=3, tensor_parallel=16), "vllm", "0.9.2")


def test_formats_and_limits_are_spelt(spread):
    limits = {"max_batch": 32, "max_length": 4096, "dtype": "fp8", "kv_dtype": "fp8"}
    vllm = export(spread(**limits), "vllm").command
    assert "--quantization fp8 --kv-cache-dtype fp8 --max-model-len 4096 --max-num-seqs 32" in vllm
    sglang = export(spread(**limits), "sglang").command
    assert (
        "--quantization fp8 --kv-cache-dtype fp8_e4m3 --context-length 4096"
        " --max-running-requests 32" in sglang
    )
    result = export(spread(**limits), "tensorrt-llm")
    assert "--max_batch_size 32 --max_seq_len 4096" in result.command
    assert yaml.safe_load(result.files["tensorrt-llm-config.yaml"])["kv_cache_config"] == {
        "dtype": "fp8"
    }
    assert any("stored so" in note for note in result.notes)
    script = export(spread("n-gram", draft_tokens=3, dtype="bf16"), "transformers").files[
        "transformers-generate.py"
    ]
    assert "from_pretrained(target_name, dtype='bfloat16')" in script


@pytest.mark.parametrize(
    ("engine", "written"),
    [
        ("vllm", "--max-num-seqs 4"),
        ("tensorrt-llm", "--max_batch_size 4"),
        ("sglang", "--max-running-requests 60"),
    ],
)
def test_a_limit_on_requests_is_one_per_copy_where_the_engine_counts_so(spread, engine, written):
    """Sixty requests on sixteen copies: SGLang divides them itself, the others limit every copy."""
    assert written in export(spread(**LARGE, max_batch=60), engine).command


def test_what_is_not_asked_for_is_left_to_the_engine(spread):
    for engine, flag in itertools.product(
        ("vllm", "sglang", "tensorrt-llm"), ("dtype", "quantization", "len", "dp")
    ):
        assert flag not in export(spread(), engine).command.replace("--max_seq_len", "len")
