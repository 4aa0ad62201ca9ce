"""How does SGLang spell masked decoding?

The server's flags and a YAML file with the algorithm's keys. Leaves out drafts
(`app.exporters.sglang`).
"""

from __future__ import annotations

from app.exporters.dialect import Dialect
from app.exporters.diffusion.program import MaskedDecoding, Program, written
from app.exporters.result import Written, command_line, script
from app.exporters.sglang import SCRIPT_FILE, WEIGHTS, deployment_flags
from costmodel.engines.record.refining import Value

ALGORITHM_FILE = "sglang-dllm.yaml"


def export_sglang(program: Program, decoding: MaskedDecoding) -> Written:
    """The script for `sglang.launch_server`, and the algorithm's YAML file.

    Raises:
        InputError: the deployment cannot be spelled.
    """
    notes = program.notes(decoding)
    dialect = Dialect.of("sglang", program.version)
    dialect.check(decoding.chosen, synthetic=False, approximate=False)
    algorithm = program.form(decoding).name
    confidence = decoding.policy.at["confidence"] if decoding.policy.commit == "threshold" else 1.0
    keys = program.keys(
        algorithm, {"block_size": decoding.policy.block_tokens, "threshold": confidence}
    )
    values: dict[str, Value] = {
        "--model-path": dialect.stored(
            program.target(decoding, notes), decoding.chosen, WEIGHTS, notes
        ),
        "--dllm-algorithm": algorithm,
        "--dllm-algorithm-config": ALGORITHM_FILE,
        "--max-running-requests": decoding.requests,
    }
    if decoding.chosen.largest_batch is None:
        notes.append("one request at a time, which SGLang takes unasked for diffusion models")
    elif decoding.chosen.max_batch is None:
        words = "SGLang takes one at a time unasked for diffusion models"
        notes.append(
            f"{decoding.requests} requests at once are the batch of the configuration: {words}"
        )
    if decoding.policy.stop == "full":
        notes.append("a request ends at its end of text; ask with ignore_eos for a full canvas")
    if decoding.method.refine is not None and decoding.method.refine.full_passes:
        notes.append(
            f"{decoding.method.slug} renews the cache at every block; SGLang has no such pass"
        )
    arguments = ["python3", "-m", "sglang.launch_server", *program.words(values)]
    arguments += deployment_flags(decoding.chosen, dialect, notes)
    header = program.header(decoding, notes)
    files = {
        ALGORITHM_FILE: "".join(f"{name}: {written(value)}\n" for name, value in keys.items()),
        SCRIPT_FILE: script(header, arguments, files=(ALGORITHM_FILE,)),
    }
    return Written(files=files, command=command_line(arguments), notes=notes)
