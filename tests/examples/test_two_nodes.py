"""DeepSeek-V3 on sixteen H200: experts over two servers, drafts by its own MTP layer, to the
command that starts it."""

import json
import shlex

import pytest

PLAN = "--tp 8 --dp 2 --ep 16"
ASKED = (
    f"rooftree optimize --model deepseek-v3 --device h200-sxm {PLAN} --drafter mtp:0.85 --batch"
    " 32,256 --context 4096"
)


@pytest.fixture(scope="module")
def _cache():
    return {}


@pytest.fixture
def planned(user, tmp_path):
    return user(f"{ASKED} --out plan --json").answer


def test_the_plan_is_priced_on_sixteen_devices(planned, user):
    """The choice says where it runs and agrees with `predict` under the same plan; drafts pay at
    the small batch."""
    chosen = planned["choices"][0]
    assert chosen["batch"] == 32 and chosen["speedup"] > 1.2
    where = chosen["configuration"]["deployment"]
    sizes = [where[key] for key in ("tensor_parallel", "data_parallel", "expert_parallel")]
    assert sizes == [8, 2, 16]
    rows = user(
        f"rooftree predict --model deepseek-v3 --device h200-sxm {PLAN} --method mtp --acceptance"
        f" 0.85 --batch 32 --context 4096 --draft-tokens {chosen['draft_tokens']} --json"
    ).answer["predictions"]
    assert rows[0]["tokens_per_s"] == pytest.approx(chosen["tokens_per_s"])
    assert rows[0]["tokens_per_step"] == pytest.approx(chosen["tokens_per_step"])


def test_the_command_starts_on_two_nodes(planned, tmp_path):
    script = (tmp_path / "plan" / "vllm" / "vllm-serve.sh").read_text()
    words = shlex.split(script[script.index("vllm serve") :].replace("\\\n", " "))

    def after(option):
        return words[words.index(option) + 1]

    assert words[2] == "deepseek-ai/DeepSeek-V3"
    sizes = [
        after(f"--{name}") for name in ("tensor-parallel-size", "data-parallel-size", "nnodes")
    ]
    assert sizes == ["8", "2", "2"]
    assert (
        "--enable-expert-parallel" in words and "--node-rank" in words and "--master-addr" in words
    )
    config = json.loads(after("--speculative-config"))
    assert config["method"] == "mtp" and config["num_speculative_tokens"] >= 1


def test_one_server_is_a_plan_too_and_says_what_it_holds(user):
    """Eight devices hold 8-bit weights; half the devices need more than half the batch's cache on
    each."""
    one = user(
        "rooftree optimize --model deepseek-v3 --device h200-sxm --tp 8 --ep 8 --drafter mtp:0.85"
        " --batch 32 --context 4096 --out one --json"
    ).answer["choices"][0]
    two = user(f"{ASKED.replace('32,256', '32')} --out two --json").answer["choices"][0]
    assert one["configuration"]["deployment"]["expert_parallel"] == 8
    assert two["step_s"] < one["step_s"] * 1.5
