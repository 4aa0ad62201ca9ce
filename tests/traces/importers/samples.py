"""One small file per format, with its totals counted by hand; detection tests and fuzzing begin
from them."""

# ruff: noqa: E501 - lines stand as programs write them

import json

VLLM_SCRAPES = [
    "\n".join(
        [
            "# TYPE vllm:spec_decode_num_drafts counter",
            f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}.0',
            f'vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {2 * drafts}.0',
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {one + two}.0',
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {one}.0',
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {two}.0',
            'vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09',
        ]
    )
    for drafts, one, two in ((10, 5, 1), (110, 75, 41))
]
VLLM_V0 = """vllm:spec_decode_draft_acceptance_rate{model_name="m"} 0.6
vllm:spec_decode_efficiency{model_name="m"} 0.5
vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 240.0
vllm:spec_decode_num_draft_tokens_total{model_name="m"} 400.0
vllm:spec_decode_num_emitted_tokens_total{model_name="m"} 250.0
"""
LMDEPLOY = "\n".join(
    [
        'lmdeploy:spec_decode_num_drafts_total{engine="0",model_name="m"} 20.0',
        'lmdeploy:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 60.0',
        'lmdeploy:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 30.0',
        'lmdeploy:spec_decode_mean_accept_rate{engine="0",model_name="m"} 0.5',
    ]
)
LLAMA_COUNTERS = """llamacpp:tokens_predicted_total 543
llamacpp:spec_decode_num_draft_tokens_total 20
llamacpp:spec_decode_num_accepted_tokens_total 7
llamacpp:spec_decode_num_drafts_total 10
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 5
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 2
"""
VLLM_LOG = (
    "(APIServer pid=1) INFO 06-01 22:00:52 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.90, "
    "Accepted throughput: 0.68 tokens/s, Drafted throughput: 0.80 tokens/s, Accepted: 9 tokens, Drafted: 20 tokens, "
    "Per-position acceptance rate: 0.600, 0.300, Avg Draft acceptance rate: 45.0%\n"
    "(APIServer pid=1) INFO 06-01 22:00:52 [loggers.py:271] Engine 000: Avg prompt throughput: 908.0 tokens/s, "
    "Avg generation throughput: 26.9 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.4%\n"
)
VLLM_V0_LOG = (
    "INFO Speculative metrics: Draft acceptance rate: 0.607, System efficiency: 0.510, Number of speculative tokens: 4, "
    "Number of accepted tokens: 99, Number of draft tokens: 400, Number of emitted tokens: 250.\n"
)
LMDEPLOY_LOG = (
    "2026-01-01 10:00:00 - lmdeploy - INFO - Draft acceptance rate: 45.00%, Mean acceptance length: 1.90, "
    "Accepted: 9 tokens, Drafted: 20 tokens, Per-position acceptance rate: 0.600, 0.300\n"
)
VLLM_BLOCK = """============ Serving Benchmark Result ============
Successful requests:                     16
Maximum request concurrency:             8
Benchmark duration (s):                  38.06
---------------Speculative Decoding---------------
Acceptance rate (%):                     45.00
Acceptance length:                       1.90
Drafts:                                  10
Draft tokens:                            20
Accepted tokens:                         9
Per-position acceptance (%):
  Position 0:                            60.00
  Position 1:                            30.00
==================================================
"""
VLLM_RESULT = {
    "model_id": "m",
    "max_concurrency": 8,
    "input_lens": [5, 6],
    "output_lens": [7, 8],
    "spec_decode_acceptance_rate": 45.0,
    "spec_decode_acceptance_length": 1.9,
    "spec_decode_num_drafts": 10,
    "spec_decode_draft_tokens": 20,
    "spec_decode_accepted_tokens": 9,
    "spec_decode_per_position_acceptance_rates": [0.6, 0.3],
}
VLLM_RECORD = {
    "mean_acceptance_length": 2.0,
    "draft_acceptance_rate": 0.5,
    "acceptance_histogram": [1, 2, 1],
    "num_spec_steps": 4,
    "num_accepted_draft_tokens": 4,
    "num_draft_tokens": 8,
    "num_spec_tokens": 2,
}
VLLM_STEPS = VLLM_RECORD | {"per_step_accepted": [2, 0, 1, 1], "per_step_drafted": [2, 2, 2, 2]}
SGLANG_LOG = "\n".join(
    f"[2025-10-22 10:27:5{at} TP0] Decode batch. #running-req: {running}, #token: 108, token usage: 0.00, "
    f"accept len: {length}, accept rate: {rate}, cuda graph: True, gen throughput (token/s): 178.86, #queue-req: 0, "
    for at, (running, length, rate) in enumerate([(1, 2.17, 0.54), (3, 1.95, 0.49)])
)
SGLANG_NEW_LOG = SGLANG_LOG.replace("rate: 0.54", "rate: 0.39").replace("rate: 0.49", "rate: 0.32")
SGLANG_SCRAPES = [
    "\n".join(
        [
            f'sglang:generation_tokens_total{{model_name="m"}} {tokens}.0',
            f'sglang:num_requests_total{{model_name="m"}} {requests}.0',
            f'sglang:spec_verify_calls_total{{model_name="m",tp_rank="0"}} {steps}.0',
            f'sglang:spec_verify_calls_total{{model_name="m",tp_rank="1"}} {steps}.0',
            'sglang:spec_accept_length{model_name="m",tp_rank="0"} 2.5',
            'sglang:spec_num_draft_tokens{model_name="m"} 4',
            'sglang:spec_num_steps{model_name="m"} 3',
            'sglang:cache_hit_rate{model_name="m"} NaN',
        ]
    )
    for tokens, requests, steps in ((100, 4, 40), (410, 14, 160))
]
SGLANG_BENCH = [
    {
        "batch_size": 1,
        "steps": 3,
        "topk": 1,
        "num_draft_tokens": 4,
        "acc_length": 2.5,
        "step_time": 0.01,
        "speed": 250,
        "completion_tokens": 1000,
    },
    {
        "batch_size": 4,
        "steps": 3,
        "topk": 1,
        "num_draft_tokens": 4,
        "acc_length": 2.0,
        "step_time": 0.01,
        "speed": 250,
        "completion_tokens": 1000,
    },
]
SGLANG_BLOCK = """============ Serving Benchmark Result ============
Backend:                                 sglang
Concurrency:                             25.78
Accept length:                           2.84
==================================================
"""
SGLANG_RESPONSE = {
    "text": "x",
    "meta_info": {
        "completion_tokens": 9,
        "spec_verify_ct": 4,
        "spec_num_correct_drafts": 4,
        "spec_num_proposed_drafts": 12,
        "spec_correct_drafts_histogram": [1, 2, 1],
        "spec_accept_length": 2.0,
    },
}
TRT_STATS = [
    {
        "iter": at,
        "iterLatencyMS": 9.0,
        "inflightBatchingStats": {"numGenRequests": running, "numContextRequests": 0},
        "specDecodingStats": {
            "numDraftTokens": 3 * running,
            "numAcceptedTokens": accepted,
            "numRequestsWithDraftTokens": running,
            "acceptanceLength": 1 + accepted / running,
        },
    }
    for at, (running, accepted) in enumerate([(8, 12), (4, 2)])
]
TRT_COUNTERS = """trtllm_spec_decode_num_draft_tokens_total{engine_type="trtllm",model_name="m"} 60.0
trtllm_spec_decode_num_accepted_tokens_total{engine_type="trtllm",model_name="m"} 30.0
trtllm_spec_decode_acceptance_length{engine_type="trtllm",model_name="m"} 2.5
"""
TRT_POSITIONS = "\n".join(
    f'trtllm_spec_decode_{name}_tokens_total{{model_name="m",token_position="{at}"}} {count}.0'
    for name, counts in (("drafted", (20, 15)), ("accepted", (12, 6)))
    for at, count in enumerate(counts)
)
TRT_RESPONSE = {
    "choices": [{"text": "x"}],
    "perf_metrics": {
        "speculative_decoding": {
            "acceptance_rate": 0.5,
            "total_accepted_draft_tokens": 15,
            "total_draft_tokens": 30,
        }
    },
}
LLAMA_OLD_LOG = """prompt eval time =     100.00 ms /    20 tokens (    5.00 ms per token,   200.00 tokens per second)
       eval time =    1000.00 ms /    41 tokens (   24.39 ms per token,    41.00 tokens per second)
draft acceptance rate = 0.57576 (   19 accepted /    33 generated)
"""
LLAMA_NEW_LOG = (
    "I slot print_timing: id 0 | task 1 | draft acceptance = 0.75000 (    9 accepted /    12 generated), "
    "mean acceptance length =  2.50, acceptance rate per position = (0.833, 0.667)\n"
)
LLAMA_STATISTICS = """statistics draft-mtp: #calls(b,g,a) = 1 40 30, #gen drafts = 10, #acc drafts = 9, #gen tokens = 20, #acc tokens = 12, #mean acc len = 2.20, #acc rate/pos = (0.900, 0.300), dur(b,g,a) = 1.0, 2.0, 3.0 ms
statistics draft-mtp: #calls(b,g,a) = 2 80 60, #gen drafts = 20, #acc drafts = 18, #gen tokens = 40, #acc tokens = 26, #mean acc len = 2.30, #acc rate/pos = (0.900, 0.400), dur(b,g,a) = 1.0, 2.0, 3.0 ms
"""
LLAMA_RESPONSE = {
    "content": "x",
    "timings": {"prompt_n": 4, "predicted_n": 30, "draft_n": 24, "draft_n_accepted": 18},
}
SPEC_BENCH = [
    {
        "question_id": 81,
        "category": "writing",
        "model_id": "m",
        "choices": [
            {
                "index": 0,
                "turns": ["a", "b"],
                "decoding_steps": [3, 2],
                "new_tokens": [6, 4],
                "wall_time": [0.1, 0.1],
                "accept_lengths": [3, 1, 2, 2, 2],
            }
        ],
    },
]
MEDUSA = [
    {
        "question_id": 81,
        "model_id": "medusa",
        "choices": [{"index": 0, "idxs": [4, 9], "new_tokens": [12, 25], "wall_time": [0.1, 0.2]}],
    },
]
REST = [
    {
        "question_id": 81,
        "category": "writing",
        "model_id": "rest",
        "choices": [
            {
                "index": 0,
                "idxs": [2, 1],
                "new_tokens": [7, 4],
                "wall_time": [0.1, 0.1],
                "accept_lengths:": [4, 1, 1, 3, 0],
            }
        ],
    },
]
EAGLE_ALPHA = [
    {
        "question_id": 81,
        "model_id": "eagle",
        "choices": [
            {
                "index": 0,
                "idxs": [9],
                "new_tokens": [21],
                "wall_time": [0.1],
                "alpha": [8, 3],
                "alpha_num": [10, 6],
            }
        ],
    },
]
AIPERF_RECORD = VLLM_RECORD | {"engine": "vllm", "acceptance_histogram": {"0": 1, "1": 2, "2": 1}}
AIPERF = [
    {
        "metadata": {"request_start_ns": 1_000_000_000 + 500_000_000 * at},
        "metrics": {
            "input_sequence_length": {"value": 100, "unit": "tokens"},
            "output_sequence_length": {"value": 8},
        },
        **extra,
    }
    for at, extra in enumerate([{"spec_decode_acceptance": AIPERF_RECORD}, {}])
]
GUIDELLM = {
    "benchmarks": [
        {
            "config": {},
            "requests": {
                "successful": [
                    {
                        "request_start_time": 12.5,
                        "prompt_tokens": 100,
                        "output_tokens": 8,
                        "response_metrics": {"speculative_decoding": VLLM_RECORD},
                    },
                    {"request_start_time": 12.0, "prompt_tokens": 50, "output_tokens": 4},
                ]
            },
        }
    ]
}
GENAI = {
    "experiments": [
        {
            "experiment": {"mode": "concurrency", "value": 1},
            "requests": [
                {
                    "timestamp": 2_000_000_000 + 250_000_000 * at,
                    "response_timestamps": [2_100_000_000],
                    "response_outputs": [
                        {
                            "response": 'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}'
                        }
                    ],
                }
                for at in range(2)
            ],
        }
    ]
}
SHAREGPT = [
    {
        "id": "a",
        "conversations": [{"from": "human", "value": "x" * 10}, {"from": "gpt", "value": "y" * 4}],
    },
    {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
]
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:47.68,3,4\n"
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
    "45,ChatGPT,1087,230,1317,Conversation log\n118,GPT-4,417,0,417,API log\n"
)
MOONCAKE = [
    {
        "timestamp": 1000 + 27 * at,
        "input_length": 600,
        "output_length": 50,
        "hash_ids": [46, 47 + at],
    }
    for at in range(2)
]
GENAI_REPORT = {"request_throughput": {"avg": 1.0}, "request_latency": {"avg": 100.0, "unit": "ms"}}


def lines(rows):
    return "\n".join(map(json.dumps, rows)) + "\n"


# name of the file: (format, text, (drafts, draft tokens, accepted tokens), acceptance by position,
# or None: mean only)
JACOBI = [
    {"request": "q", "tokens": [4, 7, 1], "same": [False, False, False]},
    {"request": "q", "tokens": [7, 2, 5], "same": [True, False, False], "start": 1},
    {"request": "q", "tokens": [7, 2, 5], "same": [True, True, True], "start": 1},
]
ACCEPTANCE = {
    "jacobi.jsonl": ("jacobi-passes", lines(JACOBI), (2, 4, 1), (0.5,)),
    "vllm.prom": ("vllm-metrics", VLLM_SCRAPES[1], (110, 220, 116), (75 / 110, 41 / 110)),
    "vllm-v0.prom": ("vllm-metrics", VLLM_V0, (100, 400, 150), None),
    "lmdeploy.prom": ("lmdeploy-metrics", LMDEPLOY, (20, 60, 30), None),
    "llama.prom": ("llama-cpp-metrics", LLAMA_COUNTERS, (10, 20, 7), (0.5, 0.2)),
    "vllm.log": ("vllm-log", VLLM_LOG, (10, 20, 9), (0.6, 0.3)),
    "vllm-v0.log": ("vllm-log", VLLM_V0_LOG, (100, 400, 150), None),
    "lmdeploy.log": ("lmdeploy-log", LMDEPLOY_LOG, (10, 20, 9), (0.6, 0.3)),
    "bench.txt": ("vllm-bench", VLLM_BLOCK, (10, 20, 9), (0.6, 0.3)),
    "bench.json": ("vllm-bench", json.dumps(VLLM_RESULT), (10, 20, 9), (0.6, 0.3)),
    "vllm.json": (
        "vllm-responses",
        json.dumps({"metrics": {"speculative_decoding": VLLM_RECORD}}),
        (4, 8, 4),
        (0.75, 0.25),
    ),
    "steps.jsonl": (
        "vllm-responses",
        lines([{"metrics": {"speculative_decoding": VLLM_STEPS}}] * 2),
        (8, 16, 8),
        (0.75, 0.25),
    ),
    "sglang.log": ("sglang-log", SGLANG_LOG, (0, 0, 0), None),
    "sglang-new.log": ("sglang-log", SGLANG_NEW_LOG, (0, 0, 0), None),
    "sglang.prom": ("sglang-metrics", SGLANG_SCRAPES[0], (40, 120, 56), None),
    "sglang.jsonl": ("sglang-bench", lines(SGLANG_BENCH), (900, 2700, 1100), None),
    "sglang.txt": ("sglang-bench", SGLANG_BLOCK, (0, 0, 0), None),
    "serving.jsonl": (
        "sglang-bench",
        lines([{"backend": "sglang", "accept_length": 2.5, "total_output_tokens": 1000}]),
        (400, 0, 600),
        None,
    ),
    "meta.json": ("sglang-responses", json.dumps(SGLANG_RESPONSE), (4, 12, 4), (0.75, 0.25)),
    "stats.json": ("tensorrt-llm-stats", json.dumps(TRT_STATS), (12, 36, 14), None),
    "stats.jsonl": ("tensorrt-llm-stats", lines(TRT_STATS), (12, 36, 14), None),
    "trtllm.prom": ("tensorrt-llm-metrics", TRT_COUNTERS, (20, 60, 30), None),
    "positions.prom": ("tensorrt-llm-metrics", TRT_POSITIONS, (20, 35, 18), (0.6, 0.3)),
    "perf.json": ("tensorrt-llm-responses", json.dumps(TRT_RESPONSE), (0, 30, 15), None),
    "llama-old.log": ("llama-cpp-log", LLAMA_OLD_LOG, (22, 33, 19), None),
    "llama-new.log": ("llama-cpp-log", LLAMA_NEW_LOG, (6, 12, 9), (0.833, 0.667)),
    "statistics.log": ("llama-cpp-log", LLAMA_STATISTICS, (20, 40, 26), (0.9, 0.4)),
    "llama.json": ("llama-cpp-timings", json.dumps(LLAMA_RESPONSE), (12, 24, 18), None),
    "spec-bench.jsonl": ("answers", lines(SPEC_BENCH), (5, 0, 5), (0.8, 0.2)),
    "medusa.jsonl": ("answers", lines(MEDUSA), (15, 0, 22), None),
    "rest.jsonl": ("answers", lines(REST), (4, 0, 7), (0.5, 0.5, 0.5, 0.25)),
    "alpha.jsonl": ("answers", lines(EAGLE_ALPHA), (10, 0, 11), (0.8, 0.4)),
    "table.csv": (
        "acceptance-table",
        "test,ref_al,min_al\nTestQwen3_4B::test_eagle3,2.5,2.3\n",
        (0, 0, 0),
        None,
    ),
    "reference.yaml": (
        "acceptance-table",
        "TestQwen3_4B::test_eagle3:\n  - ref_al: 2.5\n    min_al: 2.3\n",
        (0, 0, 0),
        None,
    ),
    "acceptance.csv": (
        "acceptance-table",
        "subset,num_drafts,num_draft_tokens,num_accepted_tokens,acceptance_length,acceptance_at_pos_0,acceptance_at_pos_1\n"
        "gsm8k,10,20,9,1.9,0.6,0.3\n",
        (10, 20, 9),
        (0.6, 0.3),
    ),
    "results.jsonl": (
        "acceptance-table",
        json.dumps(
            {
                "model": "m",
                "mtbench": [{"batch_size": 1, "steps": 3, "metrics": [{"accept_length": 2.17}]}],
            },
            indent=1,
        ),
        (0, 0, 0),
        None,
    ),
    "rest.txt": (
        "acceptance-table",
        "datastore loaded!\naccept_lengths_tree_average_micro:  2.65\n",
        (0, 0, 0),
        None,
    ),
    "profile_export.jsonl": ("aiperf", lines(AIPERF), (4, 8, 4), (0.75, 0.25)),
    "profile_export_aiperf.json": (
        "aiperf",
        json.dumps({"pooled_spec_decode_acceptance_histogram": {"0": 6, "2": 4}}),
        (10, 0, 8),
        (0.4, 0.4),
    ),
    "benchmarks.json": ("guidellm", json.dumps(GUIDELLM), (4, 8, 4), (0.75, 0.25)),
    "lengths.json": (
        "position-json",
        json.dumps(
            {"requests": [{"prompt_tokens": 5, "emitted": [3, 2, 1, 1], "drafted": [2, 2, 0, 0]}]}
        ),
        None,
        None,
    ),
    "gsm8k.jsonl": (
        "specdecode-bench",
        lines(
            [{"id": "1", "prompt_len": 5, "acc_len_eagle": [1, 3, 2, 1], "acc_len_ngram": [1, 1]}]
        ),
        None,
        None,
    ),
}
# name of the file: (format, text, arrivals in seconds, prompt tokens, output tokens)
REQUESTS = {
    "azure.csv": ("azure", AZURE, [0.0, 1.0], [374, 3], [44, 4]),
    "burst.csv": ("burstgpt", BURSTGPT, [0.0, 40.0], [472, 1087], [18, 230]),
    "mooncake.jsonl": ("mooncake", lines(MOONCAKE), [0.0, 0.027], [600, 600], [50, 50]),
    "share.json": ("sharegpt", json.dumps(SHAREGPT), [0.0], [3], [1]),
    "lengths.csv": (
        "lengths",
        "input_tokens,output_tokens\n5,6\n7,8\n",
        [0.0, 0.0],
        [5, 7],
        [6, 8],
    ),
    "run.csv": (
        "vllm-requests",
        "arrival_s,input_tokens,output_tokens\n0,5,6\n2,7,8\n",
        [0.0, 2.0],
        [5, 7],
        [6, 8],
    ),
    "run.json": (
        "vllm-requests",
        json.dumps({"input_lens": [5, 6], "output_lens": [7, 8], "start_times": [3.0, 4.5]}),
        [0.0, 1.5],
        [5, 6],
        [7, 8],
    ),
    "records.jsonl": (
        "aiperf-requests",
        lines([AIPERF[1], AIPERF[1]]),
        [0.0, 0.0],
        [100, 100],
        [8, 8],
    ),
    "guidellm.json": (
        "guidellm-requests",
        json.dumps(GUIDELLM).replace(
            '"response_metrics": {"speculative_decoding": ' + json.dumps(VLLM_RECORD) + "}",
            '"x": 1',
        ),
        [0.0, 0.5],
        [50, 100],
        [4, 8],
    ),
    "gateway.csv": (
        "request-log",
        "Started At;Prompt Tokens;# Completion Tokens;Conversation ID\n"
        "2026-05-04T08:00:02+02:00;160;8;a\n2026-05-04 06:00:00Z;100;4;a\n",
        [0.0, 2.0],
        [100, 160],
        [4, 8],
    ),
    "openai.jsonl": (
        "request-log",
        lines(
            [
                {
                    "id": "a",
                    "created": 1700000000,
                    "usage": {"prompt_tokens": 5, "completion_tokens": 6},
                },
                {
                    "id": "b",
                    "created": 1700000003,
                    "usage": {"prompt_tokens": 7, "completion_tokens": 8},
                },
            ]
        ),
        [0.0, 3.0],
        [5, 7],
        [6, 8],
    ),
    "genai.json": ("genai-perf-requests", json.dumps(GENAI), [0.0, 0.25], [9, 9], [5, 5]),
}
PASSES = lines(
    [
        {
            "model": "m",
            "vocabulary": 9,
            "mask_id": 8,
            "canvas_tokens": 4,
            "policy": {"commit": "threshold", "block_tokens": 2, "cache": "dual"},
        },
        *(
            {
                "request": "q",
                "prompt_tokens": 3,
                "block": [start, start + 2],
                "positions": positions,
                "tokens": [at + 1 for at in positions],
                "confidence": [0.95] * len(positions),
                "committed": positions[:1] if start == 0 else positions,
            }
            for start, positions in ((0, [0, 1]), (0, [1]), (2, [3, 2]))
        ),
    ]
)
# name of the file: (format, text)
CONFIDENCE = {"passes.jsonl": ("masked-passes", PASSES)}
# name of the file: (text, words of the refusal)
REFUSED = {
    "samd.json": (json.dumps({"0": [1, 2], "1": [], "2": []}), "SAM-Decoding"),
    "choices.json": (json.dumps([[0], [0, 0]]), "take it as it is"),
    "samd_eagle.json": (json.dumps({"tree_choices": [[0], [0, 0]]}), "take it as it is"),
    "collection.json": (json.dumps({"medusa/x": [[0], [0, 0]]}), "several lists of paths"),
    "growmap.json": (
        json.dumps({"roots": [[0]], "branches": [[1]], "Successors": [[1], []]}),
        "growmap",
    ),
    "tree.json": (json.dumps({"parents": [-1, 0], "ranks": [0, 0]}), "rooftree's own"),
    "vector.json": (json.dumps([0.6, 0.2, 0.1]), "tree --acceptance"),
    "report.json": (json.dumps(GENAI_REPORT), "genai-perf"),
    "plain.log": (
        "[2025-06-07 21:25:14 TP0] Decode batch. #running-req: 1, #token: 9322, gen throughput (token/s): 97.52, #queue-req: 0",
        "without acceptance",
    ),
    "times.txt": ("avg_time_per_token:  0.028\n", "times and no acceptance"),
    "other.txt": ("all is well\n", "nothing of any format"),
    "both.log": (VLLM_LOG + SGLANG_LOG, "sglang-log, vllm-log"),
}
