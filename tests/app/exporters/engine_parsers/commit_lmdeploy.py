"""Let LMDeploy's own code commit positions of blocks whose probabilities are given; answers masks
as JSON lists."""

import json
import sys

import stand_ins
import torch

stand_ins.install("lmdeploy")
from lmdeploy.pytorch import consts  # noqa: E402
from lmdeploy.pytorch.config import DLLMConfig, UnmaskingStrategy  # noqa: E402
from lmdeploy.pytorch.strategies.dllm.unmasking import UnmaskingProcessor  # noqa: E402

STRATEGIES = {"threshold": "low_confidence_dynamic", "static": "low_confidence_static"}


def commit(case):
    probabilities, held = torch.tensor(case["probabilities"]), torch.tensor(case["held"])
    rule, at = case["policy"]
    block = held.shape[1]
    process = UnmaskingProcessor(
        DLLMConfig(
            block_length=block,
            unmasking_strategy=UnmaskingStrategy.from_str(STRATEGIES[rule]),
            denoising_steps=block // int(at.get("tokens", 1)),
            confidence_threshold=at.get("confidence", 0.85),
        )
    )
    logits = torch.stack([(1 - probabilities).log(), probabilities.log()], dim=-1).flatten(0, 1)
    before = torch.where(held, consts.DLLM_UNMASKED, consts.DLLM_MASKED).flatten()
    tokens = torch.ones_like(before)
    after, _ = process(logits, torch.zeros_like(before), tokens, before.clone())
    return (
        ((before == consts.DLLM_MASKED) & (after == consts.DLLM_UNMASKED)).view(held.shape).tolist()
    )


print("\n" + json.dumps([commit(case) for case in json.load(sys.stdin)]))
