"""How does Fast-dLLM spell masked decoding?

The arguments of its evaluation of LLaDA. There is no server: the script runs a task of lm-eval,
GSM8K unless changed.
"""

from __future__ import annotations

from app.exporters.diffusion.program import MaskedDecoding, Program, written
from app.exporters.result import Written, command_line, script

SCRIPT_FILE = "fast-dllm-eval.sh"
TASK = "gsm8k"
_LIKELIHOOD_SAMPLES = 128  # its mc_num, which its batch size must divide


def export_fast_dllm(program: Program, decoding: MaskedDecoding) -> Written:
    """The script for `llada/eval_llada.py`, to be run from that folder.

    Raises:
        InputError: a batch that the evaluation refuses, or formats and limits that it does not
            have.
    """
    policy, notes, where = decoding.policy, program.notes(decoding), decoding.chosen.deployment
    if where.dtype not in (None, "bf16") or where.kv_dtype not in (None, "bf16"):
        raise program.refusal("dtype", "computes and caches in bf16", where.dtype or where.kv_dtype)
    if _LIKELIHOOD_SAMPLES % decoding.requests:
        raise program.refusal("max_batch", f"must divide {_LIKELIHOOD_SAMPLES}", decoding.requests)
    newest = program.record.has(program.record.releases[-1], program.version)
    if decoding.requests > 1 and not newest:
        raise program.refusal("max_batch", "decodes one request at a time", decoding.requests)
    if policy.cache != "none" and not newest:
        notes.append(
            "with a cache a block takes two passes at least, even where the first finishes it"
        )
    by_count = policy.commit in ("static", "random")
    passes = -(-policy.block_tokens // int(policy.at["tokens"])) if by_count else 1
    keys = program.keys(
        "model_args",
        {
            "model_path": program.target(decoding, notes),
            "gen_length": decoding.canvas_tokens,
            "steps": decoding.canvas_tokens // policy.block_tokens * passes,
            "block_length": policy.block_tokens,
            "remasking": program.form(decoding).name or None,
            **(
                {}
                if by_count
                else {
                    name: policy.at[key] for key, name in program.form(decoding).thresholds.items()
                }
            ),
            "use_cache": True if policy.cache != "none" else None,
            "dual_cache": True if policy.cache == "dual" else None,
            "batch_size": decoding.requests if newest else None,
            "show_speed": True,
        },
    )
    notes.append(
        f"run it in the folder llada of NVlabs/Fast-dLLM at {program.version}; it decodes the task"
        f" {TASK}"
    )
    notes.append(f"gen_length is the canvas that {decoding.method.slug} is priced with")
    joined = ",".join(f"{name}={written(value)}" for name, value in keys.items())
    flags = program.words({"--tasks": TASK, "--model": "llada_dist", "--model_args": joined})
    arguments = ["accelerate", "launch", "eval_llada.py", *flags]
    return Written(
        files={SCRIPT_FILE: script(program.header(decoding, notes), arguments)},
        command=command_line(arguments),
        notes=notes,
    )
