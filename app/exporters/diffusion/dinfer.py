"""How does dInfer spell masked decoding?

A JSON file with the arguments of its constructors, and a script that answers one prompt a line with
them.
"""

from __future__ import annotations

import json

from app.exporters.diffusion.program import MaskedDecoding, Program
from app.exporters.result import Written, comments
from costmodel.engines.refining.dinfer import TOKEN_IDS

SETTINGS_FILE = "dinfer-settings.json"
SCRIPT_FILE = "dinfer-answer.py"
_TYPES = {"llada": ("llada", "vllm"), "llada2_moe": ("llada2", "sglang")}
_SCRIPT = '''
"""Answers the prompts of standard input, one a line, with the settings of dinfer-settings.json beside this file."""

import json
import sys
from pathlib import Path


def main():
    from dinfer import DiffusionLLMServing, SamplingParams
    from transformers import AutoTokenizer

    settings = json.loads(Path(__file__).with_name("dinfer-settings.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(settings["serving"]["model"], trust_remote_code=True)
    sampling = SamplingParams(**settings["SamplingParams"])
    serving = DiffusionLLMServing(**settings["serving"], sample_params=sampling)
    try:
        for line in sys.stdin:
            said = [{"role": "user", "content": line.strip()}]
            prompt = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_tensors="pt")
            tokens = serving.generate(prompt, **settings["generate"])[0, prompt.shape[1] :]
            print(tokenizer.decode(tokens, skip_special_tokens=True), flush=True)
    finally:
        serving.stop_serving()


if __name__ == "__main__":  # its workers are spawned
    main()
'''


def export_dinfer(program: Program, decoding: MaskedDecoding) -> Written:
    """Settings and script.

    Raises:
        InputError: a target whose mask is not known, several requests, or passes without a cache
            where it has none.
    """
    policy, notes, where = decoding.policy, program.notes(decoding), decoding.chosen.deployment
    if not decoding.model_type:
        raise program.refusal(
            "deployment.model",
            "must be a model whose mask is known: " + ", ".join(TOKEN_IDS),
            where.model,
        )
    causal = decoding.model_type == "llada2_moe"
    if causal and policy.cache != "dual":
        rule = (
            f"computes a block of {decoding.model_type} alone, over the keys and values of all"
            " before it: dual"
        )
        raise program.refusal("refine.cache", rule, policy.cache)
    if decoding.requests > 1:
        raise program.refusal("max_batch", "its batches were not looked up", decoding.requests)
    mask_id, end_id = TOKEN_IDS[decoding.model_type]
    kind, backend = _TYPES[decoding.model_type]
    sampling = program.keys(
        "SamplingParams",
        {
            "threshold": policy.at["confidence"],
            "parallel_decoding": program.form(decoding).name,
            "use_credit": policy.commit == "credit" or None,
            "cache": program.record.caches[policy.cache],
            "early_stop": policy.stop == "end_token",
            "cont_weight": 0.0,  # no mix of embeddings from pass to pass
            "prefix_look": 0,
            "after_look": 0,
            "warmup_steps": 0,
            "mask_id": mask_id,
            "eos_id": end_id,
            "use_bd": causal,
            "max_length": decoding.chosen.max_length,
        },
    )
    devices = where.tensor_parallel * where.data_parallel
    serving = program.checked(
        {
            "model": program.target(decoding, notes),
            "model_type": kind,
            "num_gpus": devices,
            "dp_size": where.data_parallel,
            "tpep_size": where.tensor_parallel,
            "backend": backend,
        },
        program.record.settings,
    )
    whole = decoding.canvas_tokens if decoding.canvas_tokens > policy.block_tokens else None
    generate = program.keys("generate", {"gen_length": whole, "block_length": policy.block_tokens})
    if whole is None:
        notes.append("answers are of dInfer's usual length: the method's canvas is one block")
    if not causal and policy.cache != "none":
        notes.append(
            "a block's first pass, which renews the cache, is followed by a pass over the block at"
            " once"
        )
    notes.append(
        f"needs inclusionAI/dInfer at {program.version}; prompts are read from standard input, one"
        " a line"
    )
    content = (
        json.dumps({"SamplingParams": sampling, "serving": serving, "generate": generate}, indent=2)
        + "\n"
    )
    files = {
        SETTINGS_FILE: content,
        SCRIPT_FILE: comments(program.header(decoding, notes)) + _SCRIPT,
    }
    return Written(files=files, command=f"python3 {SCRIPT_FILE}", notes=notes)
