"""How does LMDeploy spell masked decoding?

The flags of `lmdeploy serve api_server`, and the same settings as keys of `PytorchEngineConfig`,
for pipelines.
"""

from __future__ import annotations

from app.exporters.diffusion.program import MaskedDecoding, Program
from app.exporters.result import Written, command_line, json_lines, script

SCRIPT_FILE = "lmdeploy-serve.sh"
CONFIG_FILE = "lmdeploy-engine-config.json"
_WEIGHTS = {"fp16": "float16", "bf16": "bfloat16"}
_CACHE = {"fp16": 0, "bf16": 0, "int8": 8, "int4": 4}


def export_lmdeploy(program: Program, decoding: MaskedDecoding) -> Written:
    """The script for the API server, and the keys of its engine.

    Raises:
        InputError: an even share that no whole number of passes gives, or a format that the engine
            does not have.
    """
    notes = program.notes(decoding)
    values = {**_strategy(program, decoding), **_limits(program, decoding)}
    keys = program.keys("PytorchEngineConfig", values)
    flags = {f"--{name.replace('_', '-')}": value for name, value in values.items()}
    target = program.target(decoding, notes)
    if decoding.policy.stop == "full":
        notes.append("a request ends at its end of text; ask with ignore_eos for a full canvas")
    if decoding.method.refine is not None and decoding.method.refine.full_passes:
        notes.append(
            f"{decoding.method.slug} renews the cache at every block; the price of that pass is not"
            " LMDeploy's"
        )
    notes.append(f"in Python: PytorchEngineConfig(**json.load(open('{CONFIG_FILE}')))")
    arguments = [
        "lmdeploy",
        "serve",
        "api_server",
        target,
        *program.words({"--backend": "pytorch", **flags}),
    ]
    header = program.header(decoding, notes)
    files = {CONFIG_FILE: json_lines(keys), SCRIPT_FILE: script(header, arguments)}
    return Written(files=files, command=command_line(arguments), notes=notes)


def _strategy(program: Program, decoding: MaskedDecoding) -> dict[str, str | int | float]:
    policy = decoding.policy
    values: dict[str, str | int | float] = {
        "dllm_block_length": policy.block_tokens,
        "dllm_unmasking_strategy": program.form(decoding).name,
    }
    if policy.commit == "threshold":
        return {**values, "dllm_confidence_threshold": policy.at["confidence"]}
    tokens = int(policy.at["tokens"])
    if policy.block_tokens % tokens:
        rule = f"divides a block of {policy.block_tokens} by a whole number of passes"
        raise program.refusal("refine.at.tokens", rule, tokens)
    return {**values, "dllm_denoising_steps": policy.block_tokens // tokens}


def _limits(program: Program, decoding: MaskedDecoding) -> dict[str, str | int | float]:
    where, block = decoding.chosen.deployment, decoding.policy.block_tokens
    prefill = program.record.settings["--max-prefill-token-num"].default
    assert isinstance(prefill, int)
    values: dict[str, str | int | float] = {"tp": where.tensor_parallel}
    if decoding.chosen.max_batch is not None:
        values["max_batch_size"] = decoding.chosen.max_batch
    if decoding.chosen.max_length is not None:
        values["session_len"] = decoding.chosen.max_length
    if decoding.requests * block > prefill:
        # otherwise LMDeploy lowers the batch, with nothing but a warning
        values["max_prefill_token_num"] = decoding.requests * block
    for key, stated, spellings in (
        ("dtype", where.dtype, _WEIGHTS),
        ("quant_policy", where.kv_dtype, _CACHE),
    ):
        if stated is not None:
            if stated not in spellings:
                name = "dtype" if key == "dtype" else "kv_dtype"
                raise program.refusal(name, f"has {', '.join(spellings)}", stated)
            values[key] = spellings[stated]
    return values
