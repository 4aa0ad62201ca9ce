"""What runs on a GPU runs on a pretended one: no mixing of devices, no wait in a capture, the
numbers of a CPU."""

import pytest

pytest.importorskip("torch")


def test_forms_passes_and_products_answer_right(ran):
    states = ran("""
probes.load_model = lambda name: TINY
for name in ("identity", "capture", "attention", "passes"):
    found = probes.probed(name, "cuda")
    assert found.state == "ok", found
    print(name)
""")
    assert states == ["identity", "capture", "attention", "passes"]


def test_a_replay_copies_nothing_and_waits_for_nothing(ran):
    """Passes were timed with their inputs loaded in every repeat, from pageable memory of the
    host."""
    waits = ran("""
model = step._model(TINY, PLACE, torch.bfloat16)
for chain in (True, False):
    cache = step._filled(model, 40, 2)
    fixed = StaticPass(model, cache, tokens=8, slots=40, settled=True, chain=chain)
    fixed.load([[1] * 8] * 2, starts=[32, 32])
    fixed.replay()
    pretend_cuda.SYNCS.clear()
    fixed.replay()
    print(sum(pretend_cuda.SYNCS.values()))
""")
    assert waits == ["0", "0"]


def test_what_is_planted_is_caught(ran):
    """Negative controls: a wait in a capture, and numbers of the host among those of the device."""
    caught = ran("""
numbers = torch.ones(4, device=PLACE)
found = measure({"": [lambda: numbers.sum().item()]}, PLACE, Effort(repeats=3, budget_s=0.01))[""]
print(type(found).__name__)
try:
    numbers + torch.ones(4)
except RuntimeError:
    print("mixed")
""")
    assert caught == ["CaptureError", "mixed"]


def test_a_campaign_of_every_timed_kind_finishes(ran, tmp_path):
    kinds = ran(f"""
import yaml
from pathlib import Path
from real_runs.campaigns.campaign import run_campaign
from real_runs.kernels import attention, gemm, moe, step
from tests.real_runs.models.loading.test_weights_like import shrunk
few = shrunk(moe.load_model("qwen3-30b-a3b"))
moe.load_model = lambda name: few
for module in (attention, gemm, step):
    module.load_model = lambda name: TINY
sizes = dict(requests=[1], query_tokens=[1, 2], context=[32])
jobs = [
    dict(name="copy", kind="copy", sizes_bytes=[4096]),
    dict(name="gemm", kind="gemm", models=["smollm2-135m"], rows=[1]),
    dict(name="launch", kind="launch", kernels=[2]), dict(name="eager", kind="launch", kernels=[2], graph=False),
    dict(name="attention", kind="attention", model="smollm2-135m", implementations=["flash", "split-flash"], **sizes),
    dict(name="steps", kind="steps", model="smollm2-135m", masks=["causal", "tree"], **sizes),
    dict(name="moe", kind="moe", model="qwen3-30b-a3b", rows=[1, 8]),
    dict(name="prefill", kind="prefill", model="smollm2-135m", requests=[1], chunk=[8], prefix=[0]),
]
common = dict(estimate_s=10, repeats=3, budget_s=0.001, kernel_names=False)
folder = Path({str(tmp_path)!r})
campaign = dict(schema=1, device="cuda", jobs=[common | job for job in jobs])
(folder / "c.yaml").write_text(yaml.safe_dump(campaign))
report = run_campaign(folder / "c.yaml", budget_s=300, out=folder / "out", isolate=False)
for each in report.outcomes:
    assert each.state == "finished" and each.rows > 0, each
    print(each.name)
""")
    assert sorted(kinds) == [
        "attention",
        "copy",
        "eager",
        "gemm",
        "launch",
        "moe",
        "prefill",
        "steps",
    ]
