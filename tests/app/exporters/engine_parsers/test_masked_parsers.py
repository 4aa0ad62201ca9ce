"""What is written for masked decoding is what SGLang's and LMDeploy's own code reads.

The wheels are read without their dependencies. What their code commits of given probabilities is
what our rules commit.
"""

import json

import numpy as np
import pytest

from app.exporters.registry import export
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.rules import Confidence, committed

pytestmark = pytest.mark.network

POLICIES = [
    *(
        RefinePolicy(commit="threshold", at={"confidence": each}, block_tokens=block, cache="dual")
        for each in (0.0, 1e-6, 0.5, 0.85, 0.95, 1.0)
        for block in (4, 32)
    ),
    RefinePolicy(commit="static", block_tokens=32, cache="dual"),
]
SHARES = [
    RefinePolicy(commit="static", at={"tokens": each}, block_tokens=8, cache="dual")
    for each in (2, 4, 8)
]


def configured(model, policy, **changes):
    return DecodingConfiguration(
        deployment=DeploymentNames(model=str(model)), method="sdar", refine=policy, **changes
    )


def test_sglang_reads_what_is_written_for_it(parsed, arguments_of, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"architectures": ["SDARForCausalLM"], "model_type": "sdar"})
    )
    choices = [configured(tmp_path, policy, max_batch=8, max_length=2048) for policy in POLICIES]
    answers = parsed("sglang", [arguments_of(export(choice, "sglang")) for choice in choices])
    for policy, answer in zip(POLICIES, answers, strict=True):
        read = answer["read"]
        wanted = policy.at.get("confidence", 1.0)
        assert read["masked"] == {
            "algorithm": "LowConfidence",
            "threshold": wanted,
            "block": policy.block_tokens,
        }
        assert isinstance(read["masked"]["threshold"], float)
        assert (read["max_running_requests"], read["context_length"]) == (8, 2048)


def test_lmdeploy_reads_what_is_written_for_it(parsed, arguments_of):
    policies = [*POLICIES, *SHARES]
    results = [
        export(configured("org/sdar", each, max_batch=300, max_length=4096), "lmdeploy")
        for each in policies
    ]
    keys = [json.loads(result.files["lmdeploy-engine-config.json"]) for result in results]
    answers = parsed("lmdeploy", [*map(arguments_of, results), *keys])
    flags, made = answers[: len(results)], answers[len(results) :]
    for policy, by_flag, by_key in zip(policies, flags, made, strict=True):
        read = by_flag["read"]
        assert (read.pop("model_path"), read.pop("backend")) == ("org/sdar", "pytorch")
        assert read == by_key["read"]
        assert read["dllm_block_length"] == policy.block_tokens and read["max_batch_size"] == 300
        if policy.commit == "threshold":
            assert read["dllm_confidence_threshold"] == policy.at["confidence"]
        else:
            assert read["dllm_denoising_steps"] == policy.block_tokens // policy.at["tokens"]


@pytest.mark.parametrize("engine", ["sglang", "lmdeploy"])
def test_their_code_commits_what_our_rules_commit(parsed, engine):
    """Probabilities of two tokens, drawn so that no threshold is met exactly; the first of equal
    ones is not asked."""
    draws = np.random.default_rng(5).permutation(np.linspace(0.5, 0.999, 6 * 8)).reshape(6, 8)
    held = np.random.default_rng(6).random((6, 8)) < 0.3
    held[:, 0] = False
    policies = [
        RefinePolicy(commit="threshold", at={"confidence": each}, block_tokens=8, cache="dual")
        for each in (0.6, 0.9, 0.9995)
    ]
    policies += [] if engine == "sglang" else SHARES
    cases = [
        {
            "policy": [each.commit, dict(each.at)],
            "probabilities": draws.tolist(),
            "held": held.tolist(),
        }
        for each in policies
    ]
    answers = parsed(engine, cases, action="commit")
    for policy, answer in zip(policies, answers, strict=True):
        ours = committed(
            policy,
            Confidence(
                masked=~held,
                open=~held,
                doubt=(1.0 - draws).astype(np.float32),
                pass_of_block=np.zeros(6, dtype=np.int64),
                block_confidence=np.full(6, np.nan),
            ),
        )
        assert np.array_equal(np.array(answer), ours), policy.name
