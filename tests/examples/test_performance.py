"""A performance engineer: policies of draft lengths on four replicas, with a timeline of each."""

import json
import re

import pytest

ASKED = (
    "rooftree simulate --model llama-3.1-8b --drafter eagle-3 --draft-tokens 5 --rate 60"
    " --prompt-tokens 800 --output-tokens 100 --slo-ttft 500 --slo-tpot 20"
)


@pytest.mark.heavy
def test_policies_on_replicas_leave_a_timeline_each(user, tmp_path):
    refused = user(f"{ASKED} --count 400 --replicas 4", code=2).err
    stated = re.search(r"(--set replicas)=VALUE", refused).group(1)
    fleet = f"{stated}=4 --set router=least-loaded"
    answer = user(
        f"{ASKED} --count 400 {fleet} --policies vllm,fixed --timeline out/t.json --json"
    ).answer
    names = [row["name"] for row in answer["policies"]]
    assert {"ours", "plain", "vllm", "fixed"} <= {*names}
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {f"t-{name}.json" for name in names}
    events = json.loads((tmp_path / "out" / "t-ours.json").read_text())["traceEvents"]
    assert len({event["pid"] for event in events}) >= 4
    best = max(answer["policies"], key=lambda row: row["goodput_per_s"])
    assert best["goodput_per_s"] > 0.0


@pytest.mark.slow
def test_twenty_thousand_requests(user):
    line = f"{ASKED} --count 20000 --set replicas=4 --set router=least-loaded"
    answer = user(f"{line} --policies all --json").answer
    assert len(answer["policies"]) >= 8
    assert all(row["goodput_per_s"] > 0.0 for row in answer["policies"])
