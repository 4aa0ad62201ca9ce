"""Measured curves of three papers against this model's passes under plans and shared prefixes.

Device constants are the profiles'; what a paper states of its machines and libraries stands beside
its table.
"""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.parallel.disaggregation import split_layers
from costmodel.parallel.passes import plan_cost
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes import kernels
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from costmodel.passes.prefixes import shared_prefix_cost
from hardware_profiles.loader import load_device

FP16 = Precision(weights="fp16", activations="fp16", kv="fp16")
FP8 = Precision(weights="fp8", activations="fp8", kv="fp8")
FP8_PRODUCTS = Precision(weights="fp8", activations="fp8", kv="bf16")


# Hydragen (arXiv:2402.05099), appendices C.1 and D.1: decoding alone, 128 tokens after a shared
# prefix, tensor parallelism over eight A100-40GB. CodeLlama has the shapes of Llama 2; "16K" is
# 16,256 tokens. The suffix is half generated on average. Its PyTorch stack runs unfused
# element-wise kernels and NCCL, which no constant here stands for; the paper measured that floor by
# leaving attention out, and the floor is an input below.
HYDRAGEN_MODELS = {"CodeLlama-7B": "llama-2-7b", "CodeLlama-13B": "llama-2-13b"}
PREFIX_TOKENS = {"1K": 1024, "2K": 2048, "4K": 4096, "8K": 8192, "16K": 16_256}
SUFFIX_TOKENS = 64


def _hydragen(target):
    return Deployment(
        architecture=load_model(HYDRAGEN_MODELS[target]),
        device=load_device("a100-sxm-40"),
        precision=FP16,
        tensor_parallel=8,
    )


def _throughputs(published_rows, system):
    rows = [r for r in published_rows if r["system"] == system and r["unit"] == "ktok/s"]
    return {
        (r["target"], int(r["batch"]), r["prompt_len"].split()[0]): 1e3 * float(r["value"])
        for r in rows
    }


def test_hydragen_curves(published_rows):
    measured = _throughputs(published_rows, "Hydragen")
    floors = _throughputs(published_rows, "No-attention bound (in Hydragen)")
    assert (len(measured), len(floors)) == ((39, 13) if published_rows.whole else (4, 5))
    errors, bare = [], []
    print(
        "\nHydragen: model, batch, prefix, ms a step measured, floor + our attention, ours alone"
        " with NCCL"
    )
    for (target, batch, length), tokens_per_s in measured.items():
        d, prefix = _hydragen(target), PREFIX_TOKENS[length]
        cost = shared_prefix_cost(
            d, batch=batch, query_tokens=1, prefix=prefix, unique=SUFFIX_TOKENS
        )
        ours = batch / floors[target, batch, "0"] + sum(
            float(cost.seconds[k]) for k in ("attention", "prefix", "combine")
        )
        width = d.architecture.hidden
        nccl = kernels.allreduce(d.device, batch * width * 2.0, 8, backend="nccl").seconds
        alone = float(cost.total_s - cost.seconds["allreduce"] + 2 * d.architecture.layers * nccl)
        errors.append(batch / ours / tokens_per_s - 1)
        bare.append(batch / alone / tokens_per_s - 1)
        print(
            f"{target} {batch:5} {length:>4} {1e3 * batch / tokens_per_s:7.2f} {1e3 * ours:7.2f}"
            f" {1e3 * alone:7.2f}"
        )
    print(
        f"given the floor: median {_median(errors):.3f}, worst {_worst(errors):.3f}; alone: median"
        f" {_median(bare):.3f}"
    )
    assert _median(errors) <= 0.15
    assert _worst(errors) <= 0.15


def test_hydragen_baselines(published_rows):
    """Every sequence reads its own copy of the prefix: FlashAttention's rows, given the same
    floor."""
    measured = _throughputs(published_rows, "FlashAttention (baseline in Hydragen)")
    floors = _throughputs(published_rows, "No-attention bound (in Hydragen)")
    assert len(measured) == (24 if published_rows.whole else 1)
    errors = []
    print(
        "\nFlashAttention with copies: model, batch, prefix, ms a step measured, floor + our"
        " attention"
    )
    for (target, batch, length), tokens_per_s in measured.items():
        cost = pass_cost(
            _hydragen(target),
            batch=batch,
            query_tokens=1,
            context=PREFIX_TOKENS[length] + SUFFIX_TOKENS,
        )
        ours = batch / floors[target, batch, "0"] + float(cost.seconds["attention"])
        errors.append(batch / ours / tokens_per_s - 1)
        print(f"{target} {batch:5} {length:>4} {1e3 * batch / tokens_per_s:7.2f} {1e3 * ours:7.2f}")
    print(f"median {_median(errors):.3f}, worst {_worst(errors):.3f}")
    assert _median(errors) <= 0.15


# Context Parallelism (arXiv:2411.01783), section 4.1 and appendix A: H100 limited to 500 W with 96
# GB at 2.4 TB/s and a bf16 peak of 800 TFLOP/s; 400 Gbit/s per device between nodes; fp8
# feed-forward layers, bf16 otherwise; graphs for decoding; FlashAttention 3, which alone reaches
# 540 TFLOP/s there. Collectives are PyTorch's, that is NCCL's.
GRAND_TETON = (
    "device.bandwidth_bytes_per_s=2.4e12",
    "device.peak_flops_per_s.bf16=8e14",
    "device.peak_flops_per_s.fp8=1.6e15",
)
FLASH_ATTENTION_3 = (
    f"device.constants.context.compute_efficiency={540 / 800}",
    "device.constants.context.tile_s=0",
    "device.constants.context.unit_s=0",
)
NARROW = ("gate_up", "down")


def _llama_405b_s(plan, overrides, **arguments):
    """Seconds of a pass with fp8 feed-forward layers and everything else in bf16.

    The narrowing of activations is that of a model in fp8 throughout: a little too much.
    """
    device = load_device("h100-sxm", [*GRAND_TETON, *overrides])
    model = load_model("llama-3.1-405b")
    wide, narrow = (
        plan_cost(
            Deployment(architecture=model, device=device, precision=form), plan, **arguments
        ).operations
        for form in (Precision(), FP8_PRODUCTS)
    )
    chosen = [op for op in wide if op.role not in NARROW]
    chosen += [op for op in narrow if op.role in NARROW or op.name == "quantise"]
    return float(sum(op.calls * op.timing.seconds for op in chosen))


def _prompt_s(new, cached, *, context, tensor=8, ring="pass_kv", overrides=FLASH_ATTENTION_3):
    plan = ParallelPlan(tensor=tensor, context=context, backend="nccl")
    return _llama_405b_s(
        plan,
        overrides,
        batch=1,
        query_tokens=new,
        context=cached,
        logits="last",
        prefill=True,
        ring=ring,
    )


def _token_s(tokens, *, context=1, tensor=8):
    plan = ParallelPlan(tensor=tensor, context=context, backend="nccl")
    return _llama_405b_s(plan, (), batch=1, query_tokens=1, context=tokens, combination="ring")


def _context_row_s(row, overrides):
    """What this model says of one row of the paper."""
    notes, per_token = row["notes"], row["unit"] == "ms TTIT"
    layout = notes.split()[0]
    parts = int(layout.removeprefix("CP").split("+")[0]) if layout.startswith("CP") else 1
    tensor = 32 if layout == "TP32" else 8
    if per_token and row["prompt_len"] == "8K-128K":
        return float(np.mean([_token_s(tokens, context=parts) for tokens in (8192, 131_072)]))
    if per_token:
        return _token_s(int(row["prompt_len"]), context=parts, tensor=tensor)
    if "pass-" in notes:
        new = 1280 if "T=1280" in row["prompt_len"] else 3200
        return _prompt_s(
            new, 128_000 - new, context=4, ring=notes.replace("-", "_").lower(), overrides=overrides
        )
    if row["source"] == "seed abstract":
        return _prompt_s(2**20, 0, context=16, overrides=overrides)
    return _prompt_s(int(row["prompt_len"]), 0, context=parts, overrides=overrides)


def _context_value_s(row):
    values = [float(part) for part in row["value"].split("-")]
    return float(np.mean(values)) * (1.0 if row["unit"] == "s" else 1e-3)


def test_context_parallelism_curves(published_rows):
    rows = [row for row in published_rows if row["system"] == "Context Parallelism"]
    assert len(rows) == (13 if published_rows.whole else 5)
    errors, own = [], []
    print(
        "\nContext Parallelism: row, seconds measured, ours, ours with the profile's own prompt"
        " attention"
    )
    for row in rows:
        measured = _context_value_s(row)
        ours, profile = (_context_row_s(row, overrides) for overrides in (FLASH_ATTENTION_3, ()))
        errors.append(ours / measured - 1)
        own.append(profile / measured - 1)
        label = f"{row['prompt_len']} {row['unit']} {row['notes'].split(';')[0][:24]}"
        print(
            f"{label:58} {measured:8.4f} {ours:8.4f} {errors[-1]:+.3f} {profile:8.4f}"
            f" {own[-1]:+.3f}"
        )
    print(
        f"median {_median(errors):.3f}; with the profile's own prompt attention {_median(own):.3f}"
    )
    assert _median(errors) <= 0.15
    assert _median(own) <= 0.2


@pytest.mark.parametrize(
    ("layout", "measured_ms"),
    [
        # Table 7 of the paper, 128K tokens: none of these is among the rows above.
        ({"tensor": 16}, 39.52),
        ({"context": 4}, 71.31),
    ],
)
def test_context_parallelism_decoding_at_other_sizes(layout, measured_ms):
    ours = 1e3 * _token_s(131_072, **layout)
    print(f"\n{layout}: {measured_ms} ms measured, {ours:.2f} ms ours")
    assert ours == pytest.approx(measured_ms, rel=0.1)


@pytest.mark.parametrize(("new", "attention_us"), [(3200, 414), (12_800, 1608)])
def test_context_parallelism_ring_turns(new, attention_us):
    """Table 5 of the paper, one turn of four: attention agrees where whole partial prefills do not.

    The paper's sums over 126 layers leave 0.6 to 0.7 s of its partial prefills unexplained; its
    tables 4 and 7 differ by as much for one and the same whole prompt (11.46 s and 10.95 s with 2 %
    more tokens).
    """
    device = load_device("h100-sxm", [*GRAND_TETON, *FLASH_ATTENTION_3])
    d = Deployment(architecture=load_model("llama-3.1-405b"), device=device, precision=Precision())
    operations = plan_cost(
        d,
        ParallelPlan(tensor=8, context=4),
        batch=1,
        query_tokens=new,
        context=128_000 - new,
        logits="last",
        prefill=True,
    ).operations
    layer_s = next(float(op.timing.seconds) for op in operations if op.name == "attention")
    print(f"\n{new} new tokens: {attention_us} us a turn measured, {1e6 * layer_s / 4:.0f} ours")
    assert 1e6 * layer_s / 4 == pytest.approx(attention_us, rel=0.15)


# Step-3 (arXiv:2507.19427), section 7.3: 8-bit products, 16-bit attention in table 9, four devices
# with 64 requests each; its two deployments circulate three micro-batches between nodes of eight
# devices at 400 Gbit/s each, 8-bit vectors there and 16-bit ones back. H800 is an H100 with slower
# links; H20 has no constants of its own here.
H20 = (
    "device.peak_flops_per_s.fp8=2.96e14",
    "device.peak_flops_per_s.bf16=1.48e14",
    "device.bandwidth_bytes_per_s=4e12",
)


def _moe_layer(name):
    model = load_model(name)
    block = max(model.blocks, key=lambda pair: pair[1])[0]
    return replace(model, blocks=((block, 1),)), block


def _layer_operations(model, requests, context, precision, **deployed):
    d = Deployment(architecture=model, precision=precision, **deployed)
    return pass_cost(d, batch=requests, query_tokens=1, context=context, logits="none").operations


def _attention_layer_s(
    name,
    requests,
    context,
    precision=FP8_PRODUCTS,
    overrides=(),
    fidelity="calibrated",
    router=False,
):
    model, block = _moe_layer(name)
    roles = {role for role, _, _ in block.attention.projections(model.hidden)}
    roles |= {"router"} if router else set()
    device = load_device("h100-sxm", overrides)
    return sum(
        float(op.timing.seconds)
        for op in _layer_operations(
            model, requests, context, precision, device=device, fidelity=fidelity
        )
        if op.name in ("attention", "mla") or op.role in roles
    )


def test_step_3_attention_layers(published_rows):
    rows = [r for r in published_rows if "Table 9" in r["source"] and r["unit"] == "us/layer"]
    assert len(rows) == (8 if published_rows.whole else 4)
    errors = []
    print(
        "\nAttention layers: model, device, context, us measured, ours calibrated (H100), bare"
        " roofs"
    )
    for row in rows:
        name = "step-3" if "MFA" in row["target"] else "deepseek-v3"
        context, measured = int(row["prompt_len"].split()[1]), float(row["value"])
        slow = H20 if row["hardware"] == "H20" else ()
        roofs = 1e6 * _attention_layer_s(name, 64, context, overrides=slow, fidelity="datasheet")
        ours = 1e6 * _attention_layer_s(name, 64, context, overrides=slow)
        print(f"{name:12} {row['hardware']:5} {context:6} {measured:6.0f} {ours:6.0f} {roofs:6.0f}")
        assert roofs <= measured
        if row["hardware"] == "H800":
            errors.append(ours / measured - 1)
    print(f"H800: median {_median(errors):.3f}, worst {_worst(errors):.3f}")
    assert _median(errors) <= 0.15


@pytest.mark.parametrize(
    ("precision", "attention_nodes", "batch"), [(FP8, 2, 6144), (FP8_PRODUCTS, 3, 6048)]
)
def test_step_3_deployments(published_rows, precision, attention_nodes, batch):
    """Every layer taken as one with experts; five of 61 are dense. The two feed-forward nodes have
    half of the routed experts each and split them over their devices, and attention nodes run the
    router (section 7.1).
    """
    devices = 8 * (attention_nodes + 2)
    row = next(
        r for r in published_rows if r["system"] == "Step-3 (AFD)" and r["n_gpus"] == str(devices)
    )
    requests = batch / 3 / (8 * attention_nodes)
    attention_s = _attention_layer_s("step-3", requests, 4096, precision, router=True)
    model, block = _moe_layer("step-3")
    half = replace(block.feed_forward, experts=block.feed_forward.experts // 2)
    node = replace(model, blocks=((replace(block, feed_forward=half), 1),))
    device = load_device("h100-sxm")
    parts = [
        op
        for layer, tokens, group in ((node, batch / 6, 8), (model, batch / 3, 16))
        for op in _layer_operations(
            layer, tokens, 1, precision, device=device, tensor_parallel=group
        )
        if (op.name == "moe" if layer is node else op.role.startswith("shared"))
    ]
    feed_forward_s = sum(float(op.timing.seconds) for op in parts)
    link = ParallelPlan().link(device, 16)
    message_s = link.latency_s + requests * model.hidden * 2.0 / link.bytes_per_s
    split = split_layers(
        attention_s, feed_forward_s, message_s, layers=61, micro_batches=3, requests=batch
    )
    ours, measured = float(split.tokens_per_s) / devices, float(row["value"])
    print(
        f"\n{row['notes']}: {measured:.0f} tokens/s/device measured, {ours:.0f} ours"
        f" ({split.limit}); per layer {1e6 * attention_s:.0f} + {1e6 * feed_forward_s:.0f} us and"
        f" {1e6 * message_s:.0f} us each way"
    )
    assert ours == pytest.approx(measured, rel=0.06)


def _median(errors):
    return float(np.median(np.abs(errors)))


def _worst(errors):
    return float(np.max(np.abs(errors)))
