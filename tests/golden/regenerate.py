"""Which predictions moved against the committed ones? `--write` makes the present ones the
committed ones.

Run by `make golden`. A golden may be regenerated only together with a line under "Predictions
changed" in CHANGELOG.md.
"""

import json
import sys
from pathlib import Path

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric

FILE = Path(__file__).parent / "predictions.json"
TOLERANCE_RATIO = 1e-9
SCENARIOS = (
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    ),
    DecodingConfiguration(
        method="n-gram", deployment=DeploymentNames(model="llama-3.1-8b", device="a100-sxm-80")
    ),
    DecodingConfiguration(
        method="eagle-3",
        deployment=DeploymentNames(model="llama-3.1-70b", device="h200-sxm", tensor_parallel=4),
    ),
    DecodingConfiguration(
        method="speculative-decoding",
        draft_model="llama-3.2-1b",
        deployment=DeploymentNames(model="llama-3.1-70b", device="h100-sxm", tensor_parallel=4),
    ),
    DecodingConfiguration(
        method="mtp",
        deployment=DeploymentNames(model="qwen3-30b-a3b", device="h100-sxm", engine="sglang"),
    ),
    DecodingConfiguration(
        method="mtp",
        deployment=DeploymentNames(
            model="deepseek-v3", device="b200-sxm", dtype="fp8", tensor_parallel=8, engine="sglang"
        ),
    ),
    DecodingConfiguration(
        method="medusa",
        deployment=DeploymentNames(model="gemma-2-9b", device="l40s", engine="tensorrt-llm"),
    ),
    DecodingConfiguration(
        method="n-gram",
        deployment=DeploymentNames(model="mixtral-8x7b", device="mi300x", engine="none"),
    ),
    DecodingConfiguration(
        method="early-exit",
        deployment=DeploymentNames(
            model="smollm2-135m", device="cpu-generic", engine="none", dtype="fp32"
        ),
    ),
    DecodingConfiguration(
        method="sequoia",
        draft_model="llama-3.2-1b",
        deployment=DeploymentNames(
            model="llama-3.1-8b", device="rtx-4090", dtype="int4", fidelity="datasheet"
        ),
    ),
)
POINTS = tuple(
    (batch, context, k) for batch in (1, 32) for context in (512, 16_384) for k in (0, 3, 7)
)


def predictions() -> dict[str, list[float]]:
    """Seconds of a step and speedup at acceptance 0.7, by scenario and point."""
    found = {}
    for s in SCENARIOS:
        setting = build_setting(s)
        for batch, context, k in POINTS:
            result = estimate(setting, geometric(0.7, k), batch=batch, context=context)
            d = s.deployment
            name = f"{d.model} {d.device} {s.method} {d.engine} b={batch} c={context} K={k}"
            found[name] = [float(result.step_s), float(result.speedup)]
    return found


def moved(before: dict[str, list[float]], after: dict[str, list[float]]) -> list[str]:
    """One line per prediction that differs, is new or is gone."""
    lines = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{'new ' if name in after else 'gone'} {name}")
            continue
        changes = [b / a - 1.0 for a, b in zip(before[name], after[name], strict=True)]
        if max(map(abs, changes)) > TOLERANCE_RATIO:
            lines.append(f"{name}: step {changes[0]:+.2%}, speedup {changes[1]:+.2%}")
    return lines


def main() -> int:
    """Print what moved; with `--write`, commit it to the file."""
    after = predictions()
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    lines = moved(before, after)
    for line in lines:
        print(line)
    print(f"{len(lines)} of {len(after)} predictions moved")
    if "--write" in sys.argv[1:]:
        FILE.write_text(json.dumps(after, indent=0) + "\n")
        return 0
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
