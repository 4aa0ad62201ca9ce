"""Let SGLang's own algorithm commit positions of blocks whose probabilities are given; answers
masks as JSON lists."""

import json
import sys
from types import SimpleNamespace

import stand_ins
import torch

stand_ins.install("sglang")
from sglang.srt.dllm.algorithm import get_algorithm  # noqa: E402
from sglang.srt.dllm.config import DllmConfig  # noqa: E402

MASK = 3


def commit(case):
    probabilities, held = torch.tensor(case["probabilities"]), torch.tensor(case["held"])
    keys = {"threshold": case["policy"][1]["confidence"]}
    algorithm = get_algorithm(
        DllmConfig("LowConfidence", keys, held.shape[1], mask_id=MASK, max_running_requests=1)
    )
    before = torch.where(held, 0, MASK)
    logits = torch.full((*held.shape, 4), -1e9)
    logits[..., 1], logits[..., 2] = probabilities.log(), (1 - probabilities).log()
    batch = SimpleNamespace(
        batch_size=len(held), input_ids=before.clone().flatten(), dllm_prompt_mask=None
    )
    algorithm.step(batch, logits.flatten(0, 1), [None] * len(held))
    return (batch.input_ids.view(held.shape) != before).tolist()


print("\n" + json.dumps([commit(case) for case in json.load(sys.stdin)]))
