"""Every layout is recognised and read by hand-checked rows; what is foreign or wrong is refused by
name and row."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.calibration.layouts import LAYOUTS
from costmodel.calibration.measurements import COLUMNS
from costmodel.calibration.routing import balanced_loads, power_law_loads
from costmodel.calibration.tables import read_all, read_measurements
from hardware_profiles.errors import InputError
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

TEXTS = {
    "products": "dtype,m,n,k,us\nbf16,4,128,64,2.5\nfp8,8,128,64,2.0\n",
    "decode": "d,hq,hkv,b,ctx,us\n128,32,8,4,1024,20\n",
    "prompt": "d,hq,hkv,b,s,us\n128,32,8,1,512,40\n",
    "latent": "kv,hq_local,b,ctx,us\nbf16,16,2,1024,15\n",
    "experts": (
        "dtype,h,f,topk,E,tp,dist,t,us\nbf16,2048,768,8,128,2,balanced,4,100\n"
        "bf16,2048,768,8,128,1,power_law_1.2,200,400\n"
    ),
    "trtllm": "tp,elems,bytes,us\n2,128,256,3.8\n",
    "vllm": "tp,elems,bytes,backend,us\n2,128,256,vllm_eager,44\n8,128,256,vllm_graph,5\n",
}


def written(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path, text, name="table.csv", **keywords):
    return {
        each.operation: each
        for each in read_measurements(written(tmp_path, text, name), **keywords)
    }


def test_products(tmp_path):
    rows = read(tmp_path, TEXTS["products"])["gemm"]
    assert rows.columns["outputs"].tolist() == [128, 128]
    assert rows.seconds.tolist() == pytest.approx([2.5e-6, 2e-6])
    assert rows.dtype.tolist() == ["bf16", "fp8"]


def test_attention_of_either_kind(tmp_path):
    decode = read(tmp_path, TEXTS["decode"])["attention_generation"].columns
    assert (decode["requests"][0], decode["query_tokens"][0], decode["context"][0]) == (4, 1, 1024)
    prompt = read(tmp_path, TEXTS["prompt"])["attention_context"].columns
    assert (prompt["requests"][0], prompt["query_tokens"][0], prompt["context"][0]) == (1, 512, 0)
    both = read(tmp_path, TEXTS["prompt"] + "128,32,8,64,1,11\n")
    assert both["attention_generation"].columns["requests"].tolist() == [64], (
        "prompts of one token are decoded"
    )
    assert both["attention_context"].columns["query_tokens"].tolist() == [512]
    assert read(tmp_path, TEXTS["latent"])["mla_generation"].columns["heads"].tolist() == [16]


def test_names_of_formats_and_conversions(tmp_path):
    rows = read(tmp_path, "dtype,m,n,k,us\nnvfp4,1,128,128,2.5\nfp8,1,128,128,2\n")["gemm"]
    assert rows.dtype.tolist() == ["fp4", "fp8"] and rows.columns["converts"].tolist() == [1.0, 1.0]


def test_experts(tmp_path):
    rows = read(tmp_path, TEXTS["experts"])["moe"]
    assert rows.columns["width"].tolist() == [384, 768]
    assert rows.columns["visited"][0] == 32
    assert rows.columns["padded_rows"][0] == 32 * 16
    assert 64 < rows.columns["visited"][1] <= 128
    assert rows.columns["padded_rows"][1] >= 64 * rows.columns["visited"][1]
    assert (rows.columns["least_padded_rows"] < rows.columns["padded_rows"]).all()
    assert rows.part.tolist() == ["balanced", "power_law_1.2"]


def test_reductions(tmp_path):
    assert read(tmp_path, TEXTS["trtllm"])["allreduce"].part.tolist() == ["trtllm"]
    rows = read(tmp_path, TEXTS["vllm"])["allreduce"]
    assert rows.part.tolist() == ["vllm", "vllm"] and rows.columns["graphs"].tolist() == [0.0, 1.0]


def test_mixed_batches_take_their_shapes_from_the_named_model(tmp_path):
    columns = {
        "tp": [2, 1, 1, 1], "prefill_chunk": [0, 64, 64, 128], "kv_prefill": [0, 0, 512, 0],
        "n_decode": [8, 0, 4, 0], "kv_decode": [1024, 0, 256, 0], "time_us": [30.0, 9.0, 40.0, 10.0],
    }  # fmt: skip
    path = tmp_path / "card_llama3.1-8b_attention.parquet"
    pq.write_table(pa.table(columns), path)
    found = {each.operation: each for each in read_measurements(path)}
    assert {name: len(rows) for name, rows in found.items()} == {
        "attention_generation": 1,
        "attention_context": 2,
        "attention_verify": 1,
    }
    assert found["attention_generation"].columns["heads"].tolist() == [16]
    verify = found["attention_verify"].columns
    assert [
        verify[name][0] for name in ("query_tokens", "context", "beside_requests", "beside_context")
    ] == [
        64,
        512,
        4,
        256,
    ]
    nameless = tmp_path / "card.parquet"
    pq.write_table(pa.table(columns), nameless)
    with pytest.raises(InputError, match="--model"):
        read_measurements(nameless)
    assert len(read_measurements(nameless, model="llama-3.1-8b")) == 3


def test_layers_become_products(tmp_path):
    text = "tp,layer,tokens,time_us\n2,down_proj,16,50\n1,act_fn,16,2\n1,qkv_proj,16,30\n"
    found = read_measurements(written(tmp_path, text, "llama-3.1-8b.csv"))
    shapes = [
        tuple(float(each.columns[c][0]) for c in ("rows", "outputs", "inputs")) for each in found
    ]
    assert sorted(shapes) == [(16, 4096, 7168), (16, 6144, 4096)]


def test_chunks_and_collectives(tmp_path):
    table = {
        "tp": [2, 2, 2],
        "n_embd": [8192] * 3,
        "n_q_head": [64] * 3,
        "n_kv_head": [8] * 3,
        "is_prefill": [False, True, True],
        "batch_size": [16, 1, 1],
        "prefill_chunk": [0, 64, 128],
        "kv_len": [512, 1024, 0],
        "attn_prefill_ms": [None, 0.03, 0.04],
        "attn_decode_ms": [0.02, None, None],
    }
    path = tmp_path / "chunks.parquet"
    pq.write_table(pa.table(table), path)
    found = {each.operation: each for each in read_measurements(path)}
    assert set(found) == {"attention_generation", "attention_context", "attention_verify"}
    assert found["attention_verify"].columns["kv_heads"].tolist() == [4]
    assert found["attention_verify"].seconds.tolist() == pytest.approx([3e-5])
    text = (
        "network,collective,num_workers,devices_per_node,size_bytes,time_ms\n"
        "dgx,all_reduce,4,4,1024,0.04\ndgx,all_reduce,4,2,1024,0.4\ndgx,send_recv,2,2,1024,0.1\n"
        "a_pairwise_nvlink,all_reduce,2,2,1024,0.1\n"
    )
    rows = read(tmp_path, text)["allreduce"]
    assert (len(rows), rows.part.tolist()) == (1, ["nccl"])


def test_our_own_traces(tmp_path):
    shape = {
        "dtype": "fp32",
        "repeats": 3,
        "graph": False,
        "flops": 1.0,
        "bytes": 1.0,
        "low_s": 1e-6,
        "high_s": 1e-3,
    }
    attention = {
        "requests": 2,
        "query_tokens": 8,
        "context": 512,
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 64,
    }
    rows = (
        KernelRow(
            operation="attention",
            implementation="a",
            median_s=5e-5,
            cold=True,
            **attention,
            **shape,
        ),
        KernelRow(
            operation="attention",
            implementation="b",
            median_s=4e-5,
            cold=True,
            **attention,
            **shape,
        ),
        KernelRow(
            operation="gemm",
            implementation="x",
            median_s=3e-5,
            cold=False,
            rows=4,
            outputs=8,
            inputs=16,
            **shape,
        ),
        KernelRow(operation="copy", implementation="x", median_s=3e-5, cold=True, **shape),
    )
    path = tmp_path / "trace.parquet"
    write_kernels(KernelTrace(rows=rows, provenance=KernelProvenance(device="mine")), path)
    found = {each.operation: each for each in read_measurements(path)}
    assert set(found) == {"attention_verify", "gemm"}
    assert found["attention_verify"].seconds.tolist() == pytest.approx([4e-5]), (
        "the fastest of two implementations"
    )
    assert found["gemm"].cold.tolist() == [False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dtype,m,n,k,us\nbf16,0,128,64,2.5\n", ["m, row 1", "whole number from 1", "got 0"]),
        (
            "dtype,m,n,k,us\nbf16,4,128,64,2.5\nbf16,4,1.5,64,2.5\n",
            ["n, row 2", "whole number", "1.5"],
        ),
        ("dtype,m,n,k,us\nbf16,4,128,64,-2\n", ["us, row 1", "got -2"]),
        ("dtype,m,n,k,us\nbf16,4,128,64,0\n", ["us, row 1", "above 0"]),
        ("dtype,m,n,k,us\nbf16,4,128,64,nan\n", ["us, row 1"]),
        ("dtype,m,n,k,us\nbf16,4,128,64,inf\n", ["us, row 1"]),
        ("dtype,m,n,k,us\nbf16,many,128,64,2\n", ["m, row 1", "many"]),
        ("dtype,m,n,k,us\n7,4,128,64,2\n", ["dtype, row 1", "text"]),
        ("dtype,m,n,us\nbf16,4,128,2\n", ["no known layout", "dtype, m, n, us"]),
        ("dtype,m,n,k,us\n", ["1 to 2000000 rows"]),
        ("dtype,m,m,k,us\nbf16,1,2,3,4\n", ["twice"]),
        ("a,b\n1,2,3\n", ["no CSV table"]),
        ("", ["no CSV table"]),
        (TEXTS["experts"].replace("balanced", "uneven"), ["dist, row 1", "power_law"]),
        (
            TEXTS["experts"].replace(",8,128,2,", ",200,128,2,"),
            ["topk, row 1", "must not exceed E"],
        ),
        (TEXTS["vllm"].replace("vllm_graph", "gloo"), ["backend, row 2", "gloo"]),
        ("tp,elems,bytes,us\n1,128,256,3\n", ["tp, row 1", "from 2"]),
    ],
)
def test_wrong_tables_are_refused_by_column_and_row(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_measurements(path)
    assert all(word in str(caught.value) for word in [*words, str(path)])


def test_foreign_and_absent_files(tmp_path):
    for name, content in (("x.parquet", b"PAR1 no"), ("x.csv", bytes(range(256)))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError):
            read_measurements(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        read_measurements(tmp_path / "absent.csv")
    text = "network,collective,num_workers,devices_per_node,size_bytes,time_ms\ndgx,send_recv,2,2,1024,0.1\n"
    with pytest.raises(InputError, match="no operation that a profile times"):
        read_all([written(tmp_path, text)])


def test_layouts_do_not_hide_each_other():
    for each in LAYOUTS:
        first = next(other for other in LAYOUTS if other.columns <= each.columns)
        assert first is each


@given(
    tokens=st.integers(1, 600),
    log=st.integers(0, 8),
    share=st.floats(0.01, 1.0),
    exponent=st.floats(0.5, 2.0),
)
def test_loads_are_whole_falling_and_complete(tokens, log, share, exponent):
    experts = 2**log
    chosen = max(1, int(share * min(experts, 16)))
    loads = power_law_loads(tokens, experts, chosen, exponent)
    assert len(loads) == experts and loads.min() >= 0 and loads.max() <= tokens
    assert loads.sum() == tokens * chosen
    assert (np.diff(loads) <= 0).all(), "most loaded first"
    assert np.count_nonzero(loads) <= min(experts, tokens * chosen)
    assert balanced_loads(tokens, experts, chosen).sum() == pytest.approx(tokens * chosen)


@pytest.mark.parametrize("exponent", [1.01, 1.2])
def test_few_tokens_of_a_skewed_law_visit_nearly_an_expert_a_choice(exponent):
    """As in the measured tables, where 4 and 8 tokens of 8 of 256 experts take as long as if they
    were balanced.
    """
    for tokens in (4, 8):
        assert np.count_nonzero(power_law_loads(tokens, 256, 8, exponent)) >= 0.85 * 8 * tokens


def test_a_steeper_law_visits_fewer_experts():
    visited = [
        np.count_nonzero(power_law_loads(32, 256, 8, exponent))
        for exponent in (0.5, 1.01, 1.2, 1.6)
    ]
    assert visited == sorted(visited, reverse=True)
    assert visited[0] > visited[-1]
    assert np.count_nonzero(power_law_loads(32, 256, 8, 1.0)) >= visited[1]


def test_every_operation_states_its_columns():
    assert all(
        "requests" in names
        for operation, names in COLUMNS.items()
        if operation.startswith("attention")
    )
