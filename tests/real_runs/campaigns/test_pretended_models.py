"""Jobs that run a model for real finish on a pretended GPU, whatever drafter a campaign names, with
the plain text."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.real_runs.campaigns.test_decode_runs import ALL, FIT, HEADS, PROMPTS

SCRIPT = """
import yaml
from pathlib import Path
from real_runs.campaigns.campaign import run_campaign
from real_runs.campaigns.results import read_runs
folder, model = Path({folder!r}), {model!r}
(folder / "prompts.toml").write_text({prompts!r})
common = dict(estimate_s=60, model_file=model, prompts=str(folder / "prompts.toml"), max_new_tokens=8,
              drafter_options={fit!r})
jobs = [common | job for job in {jobs!r}]
(folder / "c.yaml").write_text(yaml.safe_dump(dict(schema=1, device="cuda", jobs=jobs)))
report = run_campaign(folder / "c.yaml", budget_s=500, out=folder / "out", isolate=False)
for each in report.outcomes:
    assert each.state == "finished" and each.rows > 0, each
found = read_runs(folder / "out")
texts = dict()
for run in found.runs if found else ():
    texts.setdefault(run.prompt, set()).add(run.output_sha256)
assert all(len(each) == 1 for each in texts.values()), texts
print(len(texts))
"""


def test_real_decoding_finishes_with_the_plain_text_and_recordings_finish(
    ran, tmp_path, tiny_folder
):
    drafters = ["prompt-lookup", "suffix-automaton", "token-recycling", "early-exit", "layer-skip"]
    jobs = [
        {"name": "heads", "kind": "decode", "rounds": 1, "configurations": HEADS},
        {"name": "others", "kind": "decode", "rounds": 1, "configurations": ALL},
        {"name": "record", "kind": "record", "drafters": drafters, "temperatures": [0.0]},
    ]
    prompts = "[[prompts]]".join(PROMPTS.split("[[prompts]]")[:3])
    script = SCRIPT.format(
        folder=str(tmp_path),
        model=str(tiny_folder),
        prompts=prompts,
        fit=FIT | {"head_steps": 4},
        jobs=jobs,
    )
    assert ran(script) == ["2"]
