"""Which readers take files and words from outside, and what does each of them read when all is
well?

A target makes the content of a case from its seeds, and plays the file that holds it. A case that
is read, or refused as an `InputError`, is fine; anything else is a fault.
"""

import contextlib
import dataclasses
import io
import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from app.answers.recordings.inspect import confidence_facts
from app.answers.recordings.policies import compared_policies
from app.answers.scoring.measured import COLUMNS, MARKS, measurements
from app.answers.sweep.file import read_sweep
from app.cli.main import main
from app.questions.record_files import read_records
from app.questions.resolve.profiles import read_profile
from app.questions.values import (
    Bytes,
    LatencyLimit,
    PositiveNumbers,
    Rates,
    RatesOrFile,
    Share,
    Time,
    WholeNumbers,
)
from costmodel.architectures.hf.config import read_hf_config
from costmodel.architectures.library import load_model
from costmodel.configuration.file import read_configuration
from costmodel.draft_shape import read_shapes, read_stop
from costmodel.engine_library import load_engine
from costmodel.method_file import read_method_file
from costmodel.method_template import method_template
from costmodel.optimizers.acceptance_vectors import read_acceptance as read_vectors
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.drafters.sources import confidence_source
from hardware_profiles.errors import RooftreeError
from hardware_profiles.loader import load_device
from simulator.closed_loop.columns import read_columns
from simulator.closed_loop.table_rows import RowAnswer
from simulator.scenario.file import read_scenario
from simulator.timing.engine_settings import read_engine
from tests.faults.mutations import mutated_bytes, mutated_json, mutated_table, mutated_text
from tests.traces.importers import samples
from tests.traces.importers.engines.test_running import SGLANG_LOG, STARTED, vllm, vllm_log
from tests.traces.toy_masked import EVERY_RULE, toy_trace
from traces.importers.engines.ran import with_running
from traces.importers.engines.responses import read_adapters
from traces.importers.engines.running import read_running
from traces.importers.formats import (
    READERS,
    REQUEST_READERS,
    import_confidence,
    import_requests,
    import_trace,
    read_requests_any,
)
from traces.kinds.acceptance import AcceptanceTrace, RequestTrace
from traces.kinds.summary import Summary
from traces.kinds.timed_steps import TimedSteps
from traces.kinds.tree import chain_tree, read_tree
from traces.library import read_trace, trace_file
from traces.storage.acceptance_file import (
    acceptance_table,
    describe,
    read_acceptance,
    read_requests,
    write_requests,
)
from traces.storage.confidence_file import confidence_table

ROOT = Path(__file__).resolve().parents[2]
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
}
CONFIGS = [
    CONFIG,
    CONFIG
    | {
        "model_type": "mixtral",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    CONFIG
    | {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "sliding_window": 4096,
        "max_window_layers": 8,
    },
    CONFIG
    | {
        "model_type": "deepseek_v3",
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "n_routed_experts": 64,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408,
        "first_k_dense_replace": 3,
        "moe_layer_freq": 1,
    },
    CONFIG
    | {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "sliding_window": 1024,
        "layer_types": ["full_attention"] * 16,
    },
    CONFIG
    | {
        "model_type": "mamba2",
        "num_heads": 32,
        "head_dim": 64,
        "state_size": 128,
        "expand": 2,
        "conv_kernel": 4,
    },
    CONFIG | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
    {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
    },
    {
        "model_type": "gemma3",
        "text_config": CONFIG | {"model_type": "gemma3_text", "sliding_window_pattern": 6},
    },
]
METHODS = ("eagle-3", "triforce", "fast-dllm", "gear", "medusa-typical", "pearl", "hydragen")
DRAWN = {
    "count": 12,
    "prompt_tokens": "uniform:50:200",
    "output_tokens": 8,
    "arrivals": "poisson",
    "rate_per_s": 5,
}
WHERE = {
    "model": "llama-3.1-8b",
    "device": "h100-sxm",
    "engine": "vllm",
    "tensor_parallel": 1,
    "overrides": [],
}
SCENARIOS = [
    {"requests": DRAWN, "deployment": WHERE},
    {
        "requests": DRAWN | {"arrivals": "closed", "users": 2, "think_s": 0.5},
        "deployment": WHERE,
        "replicas": 2,
        "router": "least-loaded",
        "slo": {"ttft_s": 1.0, "tpot_s": 0.05, "e2e_s": 9.0},
    },
    {
        "requests": DRAWN | {"priorities": {0: 0.2, 1: 0.8}},
        "deployment": WHERE,
        "speculation": {
            "trace": "smollm2-135m--prompt-lookup--greedy",
            "draft_tokens": 3,
            "schedule": [[1, 4, 3], [5, 64, 1]],
        },
        "scheduler": {
            "token_budget": 512,
            "max_requests": 8,
            "chunked_prefill": True,
            "preemption": "swap",
        },
    },
    {
        "requests": DRAWN,
        "deployment": WHERE,
        "blocks": {"block_tokens": 8, "passes": 4, "query_tokens": [8, 4]},
        "disaggregation": {"prefill_replicas": 1, "transfer_latency_s": 0.001},
    },
]
CONFIGURATION = {
    "schema": 1,
    "deployment": {"model": "llama-3.2-1b", "device": "h100-sxm", "engine": "vllm"},
    "method": "eagle-3",
    "draft_tokens": 3,
    "schedule": [[1, 4, 3], [5, 64, 1]],
}
ANSWER = {
    "schema": 1,
    "inputs": {"model": "llama-3.2-1b"},
    "choices": [
        {
            "batch": 1,
            "context": 8,
            "method": "n-gram",
            "draft_tokens": 3,
            "tree": None,
            "configuration": {
                "schema": 1,
                "deployment": {"model": "gpt2"},
                "method": "n-gram",
                "draft_tokens": 3,
            },
        }
    ],
    "schedules": [
        {
            "method": "n-gram",
            "context": 8,
            "configuration": {
                "schema": 1,
                "deployment": {"model": "gpt2"},
                "method": "n-gram",
                "schedule": [[1, 4, 3]],
            },
        }
    ],
}
TREES = [
    {"parents": [-1, 0, 0, 1], "ranks": [0, 0, 1, 0], "root_included": True}, [[0], [1], [0, 0]], [[0.6, 0.2], [0.5]],
    [0.6, 0.2, 0.1], {"0": [1, 2], "1": [3]}, {"Successors": [[1, 2], [3], [], []]}, {"tree_adj": {"0": [1]}},
]  # fmt: skip
PROFILES = ["hour,rate\n0,2.5\n1,0\n7,90\n", "hour,rate\n23,1e3\n"]
WORDS = [
    "p99:800",
    "0.72",
    "0.78,0.61,0.48",
    "eagle-3:0.78,0.61,0.48",
    "n-gram:0.3",
    "mtp",
    "eagle-3",
    "draft-model:length=2.4@5",
    "eagle-3:length=2.4",
    "nodes=16,least=0.02",
    "nodes=8,depth=4,width=2,beam=2",
    "probability:0.6",
    "product:0.3",
    "ema:0.5,least=1,most=4",
    "n-gram:trace.parquet",
    "goodput",
    "gain:0.1",
]
RUNS = [(ROOT / "tests" / "golden" / "runs.csv").read_text()]
RUNS += [
    '{"backend": "vllm", "model_path": "a/b", "system": "l4", "isl": 9, "osl": 2, "tpot_ms": 7,'
    ' "measurement": 1}'
]
ENGINES = [
    {
        "model": "meta-llama/Llama-3.1-8B",
        "vllm_version": "0.19.0",
        "engine_kwargs": {
            "model": "meta-llama/Llama-3.1-8B",
            "tensor_parallel_size": 1,
            "data_parallel_size": 1,
            "max_num_seqs": 128,
            "max_num_batched_tokens": 2048,
            "max_model_len": None,
            "dtype": "bfloat16",
            "kv_cache_dtype": "auto",
            "seed": 42,
        },
        "sim_config": {
            "num_nodes": 1,
            "link_bw": 16,
            "link_latency": 20000,
            "nodes": [
                {
                    "num_instances": 1,
                    "instances": [
                        {
                            "model_name": "meta-llama/Llama-3.1-8B",
                            "npu_mem": {"mem_size": 96, "mem_bw": 1597},
                        }
                    ],
                }
            ],
        },
    },
    {
        "engine_kwargs": {
            "model": "Qwen/Qwen3-30B-A3B",
            "data_parallel_size": 2,
            "enable_expert_parallel": True,
        },
        "kv_cache": {"num_gpu_blocks": 4000, "block_size": 16},
        "sim_config": {
            "link_bw": 16,
            "link_latency": 20000,
            "nodes": [
                {
                    "num_instances": 2,
                    "instances": [
                        {
                            "npu_mem": {"mem_size": 96, "mem_bw": 1597},
                            "num_npus": 1,
                            "tp_size": 1,
                            "ep_size": 2,
                            "dp_group": "A",
                        },
                        {
                            "npu_mem": {"mem_size": 96, "mem_bw": 1597},
                            "num_npus": 1,
                            "tp_size": 1,
                            "ep_size": 2,
                            "dp_group": "A",
                        },
                    ],
                }
            ],
        },
    },
]


SWEEPS = [
    {
        "models": ["llama-3.1-8b"],
        "devices": ["l4", "h100-sxm"],
        "drafters": ["eagle-3", "n-gram:0.5"],
        "batches": [1, 8],
        "contexts": [1024],
    },
    {
        "models": ["llama-3.1-8b"],
        "devices": ["l4"],
        "tensor_parallel": [1, 2],
        "rates": [1, 2.5],
        "prompt_tokens": "uniform:50:200",
        "output_tokens": 8,
        "slo_ttft": 500,
        "slo_tpot": 20,
        "slo_e2e": 9000,
    },
]


VLLM_SERVED = (
    "args: {'speculative_config': {'method': 'eagle3', 'num_speculative_tokens': 3}}\n"
    + STARTED
    + vllm_log(windows=2)
)
SGLANG_SERVED = SGLANG_LOG.replace(
    "speculative_algorithm='EAGLE3'",
    "speculative_algorithm='EAGLE3', speculative_num_steps=3, speculative_num_draft_tokens=4",
)


@dataclasses.dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        weight: share of all cases.
        make: content of a case, from a seeded generator.
        play: reads the file that holds the content; `InputError` is a fine end.
        ending: of the file.
    """

    weight: int
    make: Callable
    play: Callable
    ending: str = ".json"


def _traces():
    """Small traces of every level, as tables."""
    summary = Summary(acceptance_by_depth=(0.5, 0.25), drafts=4, draft_tokens=8, accepted_tokens=3)
    lengths = {"offsets": [0, 3, 5], "emitted": [2, 1, 1, 3, 1]}
    ranks = {"rank": [0, 1, -1, 0, 0], "rank_width": 2, "depth_invariant": True}
    sure = {"draft_ids": [[1, 2]] * 5, "draft_probs": [[0.5, 0.2]] * 5, "target_probs": [[0.5, 0.2]] * 5,
            "emitted_target_prob": [0.5] * 5, "residual_mass": [0.3] * 5}  # fmt: skip
    plain = {"offsets": [0, 3, 5], "emitted": [2, 1, 1, 2, 1]}
    timed = TimedSteps(offsets=[0, 2, 3], shapes=(chain_tree(1),), shape=[0] * 3, batch=[1] * 3,
                       group=[0, 0, 1], position=[0, 2, 0], context=[1, 3, 1], drafted=[1] * 3,
                       emitted=[2, 1, 2], draft_s=[0.1] * 3, verify_s=[0.2] * 3, rest_s=[0.0] * 3)  # fmt: skip
    made = [
        AcceptanceTrace(**plain, prompt_tokens=[2, 2], steps=timed),
        AcceptanceTrace(summary=summary),
        AcceptanceTrace(**lengths),
        AcceptanceTrace(**lengths, drafted=[3, 0, 0, 3, 2]),
    ]
    for parts in (ranks, ranks | sure):
        with contextlib.suppress(RooftreeError):
            made.append(AcceptanceTrace(**plain, **parts))
    return [acceptance_table(trace) for trace in made]


def _judged(folder, text):
    """What an engine ran, in the recording of its counts."""
    (folder / "served.log").write_text(text)
    running = read_running(folder / "served.log")
    return acceptance_table(with_running(running.trace, running))


def targets(folder):
    """Every reader by name.

    Args:
        folder: where seeds that are files may be written.
    """
    imported = {**samples.ACCEPTANCE, **samples.REQUESTS, **samples.CONFIDENCE}
    texts = [row[1] for row in imported.values()] + [text for text, _ in samples.REFUSED.values()]
    listed = [row[1] for row in samples.REQUESTS.values()]
    responses = [row[1] for row in imported.values() if row[0].endswith("-responses")]
    devices = [
        path.read_text()
        for path in sorted((ROOT / "hardware_profiles" / "data").glob("*.toml"))[:6]
    ]
    methods = [method_template("mine", like) for like in METHODS]
    engine = [path.read_text() for path in sorted((ROOT / "tests").rglob("engine*.toml"))[:2]]
    written = folder / "requests.parquet"
    write_requests(
        RequestTrace(
            arrival_s=[0.0, 1.0],
            prompt_tokens=[5, 6],
            output_tokens=[7, 8],
            prefix_blocks=((1,), (1, 2)),
        ),
        written,
    )
    served = [VLLM_SERVED, SGLANG_SERVED, vllm()]
    judged = [_judged(folder, text) for text in served]
    tables, requests = _traces(), pq.read_table(written)
    confidence = [confidence_table(toy_trace(EVERY_RULE[:n], prompts=2, length=32)) for n in (1, 4)]
    shipped = trace_file("confidence/masked-names-live--plain").read_bytes()
    documents = [value for text in texts if (value := _document(text)) is not None]

    def engine_file(generator, seeds=texts):
        text = generator.choice(seeds)
        document = _document(text)
        if document is not None and generator.random() < 0.6:
            return json.dumps(mutated_json(generator, document, documents))
        rows = [_document(row) for row in text.splitlines()]
        if rows and all(isinstance(row, dict) for row in rows) and generator.random() < 0.6:
            return "\n".join(json.dumps(mutated_json(generator, row, rows)) for row in rows)
        return mutated_text(generator, text, texts)

    def recording(generator, seeds=tables):
        table = generator.choice(seeds)
        if generator.random() < 0.6:
            return mutated_table(generator, table)
        stream = io.BytesIO()
        pq.write_table(table, stream)
        return mutated_bytes(generator, stream.getvalue())

    def of_json(seeds):
        return lambda generator: (
            json.dumps(mutated_json(generator, generator.choice(seeds), seeds))
            if generator.random() < 0.8
            else mutated_text(generator, json.dumps(generator.choice(seeds)))
        )

    def of_yaml(generator, seeds):
        document = generator.choice(seeds)
        if generator.random() < 0.7:
            return yaml.safe_dump(mutated_json(generator, document, seeds))
        return mutated_text(generator, yaml.safe_dump(document), texts)

    def of_text(seeds):
        return lambda generator: mutated_text(generator, generator.choice(seeds), seeds)

    found = {
        "import": Target(20, engine_file, read_trace, ".log"),
        "import-json": Target(4, engine_file, read_trace, ".json"),
        "import-named": Target(4, engine_file, _named, ".txt"),
        "masked-passes": Target(
            4,
            lambda generator: engine_file(generator, [samples.PASSES]),
            lambda file: import_confidence("masked-passes", file),
            ".jsonl",
        ),
        "adapters": Target(
            4, lambda generator: engine_file(generator, responses), _adapters, ".json"
        ),
        "sweep": Target(6, lambda generator: of_yaml(generator, SWEEPS), read_sweep, ".yaml"),
        "requests": Target(
            8, lambda generator: engine_file(generator, listed), read_requests_any, ".csv"
        ),
        "traces": Target(8, recording, _recording, ".parquet"),
        "running": Target(
            4, lambda generator: engine_file(generator, served), read_running, ".log"
        ),
        "running-recording": Target(
            4, lambda generator: recording(generator, judged), read_running, ".parquet"
        ),
        "confidence-traces": Target(
            6, lambda generator: recording(generator, confidence), _confidence_file, ".parquet"
        ),
        "confidence-bytes": Target(
            2, lambda generator: mutated_bytes(generator, shipped), _confidence_file, ".parquet"
        ),
        "confidence-command": Target(
            1, lambda generator: recording(generator, confidence), _confidence_command, ".parquet"
        ),
        "request-traces": Target(
            4, lambda generator: recording(generator, [requests]), _request_file, ".parquet"
        ),
        "scenario": Target(
            10, lambda generator: of_yaml(generator, SCENARIOS), read_scenario, ".yaml"
        ),
        "device": Target(10, of_text(devices), load_device, ".toml"),
        "method": Target(8, of_text(methods), read_method_file, ".toml"),
        "model": Target(10, of_json(CONFIGS), _model, ".json"),
        "configuration": Target(6, of_json([CONFIGURATION, ANSWER]), read_configuration, ".json"),
        "tree": Target(4, of_json(TREES), _tree, ".json"),
        "profile": Target(2, of_text(PROFILES), read_profile, ".csv"),
        "words": Target(8, of_text(WORDS), _words, ".txt"),
        "measured-runs": Target(4, of_text(RUNS), _runs, ".csv"),
        "engine-settings": Target(2, of_json(ENGINES), read_engine, ".json"),
        "command": Target(2, engine_file, _command, ".log"),
    }
    if engine:
        found["engine"] = Target(2, of_text(engine), lambda path: load_engine(str(path)), ".toml")
    return found


def _document(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def _all_of(path, *readers):
    """Every reader reads the file; refused is what all of them refuse."""
    refusals = []
    for read in readers:
        try:
            read(path)
        except RooftreeError as error:
            refusals.append(error)
    if len(refusals) == len(readers):
        raise refusals[-1]


def _adapters(path):
    """Counts by adapter, of the responses of every engine."""
    engines = ("vllm", "sglang", "tensorrt-llm")
    _all_of(path, *(partial(read_adapters, engine=f"{engine}-responses") for engine in engines))


def _named(path):
    """By every format's own reader, as `--format` does."""
    _all_of(
        path,
        *(lambda file, name=name: import_trace(name, file) for name in READERS),
        *(lambda file, name=name: import_requests(name, file) for name in REQUEST_READERS),
    )


def _recording(path):
    _all_of(path, read_acceptance, describe)


def _confidence_file(path):
    """What `traces inspect`, `traces compare` and `predict --trace` make of it."""
    methods = ("dparallel", "localleap", "prophet", "fast-dllm")
    replays = [lambda file, name=name: confidence_source(file, name) for name in methods]
    _all_of(
        path,
        lambda file: confidence_facts(file, 0),
        lambda file: compared_policies([file], 0),
        *replays,
        describe,
    )


def _confidence_command(path):
    """The same through the command line; a refusal leaves no answer behind."""
    out = path.parent / "answer"
    predict = ["predict", "--model", "llada-8b", "--batch", "1", "--method", "dparallel", "--trace"]
    words = random.Random(path.read_bytes()).choice(
        [["traces", "inspect"], ["traces", "compare"], predict]
    )
    code = _ended([*words, str(path), "--quiet", "--out", str(out)])
    assert code == 0 or not out.exists() or not any(out.iterdir()), "an answer half written"
    shutil.rmtree(out, ignore_errors=True)


def _request_file(path):
    _all_of(path, read_requests, read_requests_any, describe)


def _model(path):
    _all_of(path, read_hf_config, load_model)


def _tree(path):
    _all_of(path, read_tree, read_vectors)


FIELD_READERS = (
    WholeNumbers(least=0),
    PositiveNumbers(),
    Rates(),
    RatesOrFile(),
    Share(),
    LatencyLimit(),
    Time(),
    Bytes(),
)


def _words(path):
    text = path.read_text()
    _all_of(
        text, *(reader.read for reader in FIELD_READERS), drafter_source, read_shapes, read_stop
    )


def _runs(path):
    rows = read_records(
        path, more=(*MARKS, *(name for names in COLUMNS.values() for name in names))
    )
    for index, row in enumerate(rows):
        read_columns(row, file=str(path), row=index)
    measurements(rows, [RowAnswer(id=str(index), reason="not asked") for index in range(len(rows))])


def _command(path):
    """The whole way through the command line."""
    _ended(["traces", "import", str(path), "-o", str(path.with_suffix(".parquet"))])


def _ended(words):
    """The exit code of a command: 0, 2 or 3, and no traceback."""
    said, warned = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(warned):
        code = main(words)
    assert code in (0, 2, 3) and "Traceback" not in warned.getvalue(), (
        code,
        warned.getvalue()[-400:],
    )
    return code
