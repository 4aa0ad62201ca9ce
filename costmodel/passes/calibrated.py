"""Which operations make up one pass of one model, and what do they cost by the constants of the
device's profile?

Sums the operations of every layer, the output head and the sampler on one device of a
tensor-parallel group, at the fidelities `datasheet` and `calibrated`. Leaves out passes that were
timed whole (`costmodel.passes.measured`), the host and everything between passes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from costmodel.architectures.architecture import Block
from costmodel.architectures.attention import Attention, Projection
from costmodel.architectures.state_layers import StateLayer
from costmodel.passes import kernels, ops, state_update
from costmodel.passes import transformed_operations as added
from costmodel.passes.adapters import Adapters, adapter_work
from costmodel.passes.deployment import Deployment
from costmodel.passes.kernels import Timing
from costmodel.passes.ops import Array, Mask, Number, Work
from costmodel.passes.precision import Part, main_format
from costmodel.passes.sharding import sharded
from costmodel.passes.totals import Index, Operation, PassCost, Tally, scaled
from costmodel.transforms.declared import LayerSchedule, SparseFeedForward
from hardware_profiles.fitted.formats import WEIGHT_FORMATS
from hardware_profiles.profile import Device

# rows that reach the output head: of all tokens, of each request's last, or so many of a request
Logits = Literal["all", "last", "none"] | Array
# products that read the vector of another, which is quantised once for all of them
_SAME_INPUT = {
    **dict.fromkeys(
        (
            "q",
            "q_down",
            "kv_down",
            "kv",
            "qkv",
            "state_input",
            "state_gates",
            "index_k",
            "index_weights",
        ),
        "mixer",
    ),
    "index_q": "q_up",
    **dict.fromkeys(("router", "shared_gate_up", "shared_up", "gate_up", "up"), "feed_forward"),
}
_FEED_FORWARD = ("gate_up", "up", "down")
# `kv_down` is part of `q_down`; the others stay in 16 bits
_NEVER_WALKED = ("kv_down", "kv_up", "router")
_WALKED_INPUTS = 128  # of a block with a scale of its own
_MANY_POINTS = 2048  # from which on looking for points with equal rows pays


def calibrated_pass(
    deployment: Deployment,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits = "all",
    prefill: bool = False,
) -> PassCost:
    """Cost of a pass as the sum of its operations; arguments as in
    `costmodel.passes.forward.pass_cost`.

    Raises:
        InputError: a negative, zero or non-finite argument.
    """
    b, n, context_tokens = ops.checked_sizes(batch, query_tokens, context)
    deployment, tally = _in_blocks(deployment), Tally()
    schedule = deployment.schedule
    for layer, count in deployment.architecture.blocks:
        block = (
            replace(layer, feed_forward=layer.feed_forward.merged())
            if deployment.merges_experts
            else layer
        )
        once = block.cross_decoder and prefill and isinstance(logits, str) and logits != "all"
        # of a prompt, a cross-decoder runs the last token alone, after all others
        shape = (b, np.ones_like(n), context_tokens + n - 1.0) if once else (b, n, context_tokens)
        if schedule is not None and (schedule.prompts or not prefill):
            for operation in _scheduled(
                deployment, schedule, block, count, *shape, prefill and not once
            ):
                tally.add(operation)
            continue
        for operation in _block(deployment, block, *shape, prefill and not once):
            tally.add(operation._replace(calls=count))
    for operation in _head(deployment, b, n, logits):
        tally.add(operation)
    return tally.cost()


def _in_blocks(d: Deployment) -> Deployment:
    """The deployment with the profile's constants for products with weights in blocks of GGUF,
    where it has some.
    """
    if not d.device.formats:
        return d
    form = main_format(d.precision.weights)
    has_constants = form in WEIGHT_FORMATS and form in d.device.formats
    return replace(d, device=_device_in(d.device, form)) if has_constants else d


def _in_part(d: Deployment, part: Part) -> Deployment:
    """The deployment as the products of routed experts or of the output head see it."""
    own = d.precision.of(part)
    return d if own is d.precision else _in_blocks(replace(d, precision=own))


@lru_cache(maxsize=32)
def _device_in(device: Device, form: str) -> Device:
    return device.in_format(form)


def _scheduled(
    d: Deployment,
    schedule: LayerSchedule,
    block: Block,
    count: int,
    b: Array,
    n: Array,
    context: Array,
    prefill: bool,
) -> Iterator[Operation]:
    """The layer's operations where tokens skip layers: parts that run for some tokens, weighted by
    how often.
    """
    hidden, rank = d.architecture.hidden, schedule.substitute_rank
    layers_per_share = count / len(schedule.shares)
    for share in schedule.shares:
        cached = context if schedule.keeps_cache else context * share
        if share and (schedule.together or share == 1.0):
            for operation in _block(d, block, b, n, cached, prefill):
                yield operation._replace(calls=layers_per_share * share)
        elif share:
            # requests go their own ways: the layer runs once any of them needs it, for those alone
            # probability that one of b requests needs the layer; b · share of them do on average
            runs = 1.0 - (1.0 - share) ** b
            for operation in _block(d, block, b * share / runs, n, cached, prefill):
                yield scaled(operation, runs)._replace(calls=layers_per_share)
        if rank and share < 1.0:
            for shape in (("substitute_down", rank, hidden), ("substitute_up", hidden, rank)):
                yield _gemm(d, shape, b * n)._replace(calls=layers_per_share * (1.0 - share))


def _block(
    d: Deployment, block: Block, b: Array, n: Array, context: Array, prefill: bool
) -> Iterator[Operation]:
    hidden, distinct, p = d.architecture.hidden, _distinct(b * n), d.precision
    rows, one = distinct.few, np.ones(())
    feed_forward, projections = block.feed_forward, block.projections(hidden)
    sparse = d.sparse_feed_forward if not feed_forward.is_moe else None
    for projection in projections:
        product = _gemm(d, projection, rows)
        if sparse is not None and projection[0] in _FEED_FORWARD:
            product = _of_parts(d, product, sparse, rows)
        yield distinct.of(product)
    if d.adapters is not None:
        yield from _adapted(d, d.adapters, block, b, n)
    if sparse is not None:
        yield distinct.of(added.choosing(d, rows, hidden, sparse.kernels))
    if block.attention.heads:
        written, source = d.contexts(context) if block.cross is not None else (context, context)
        yield from _attention(d, block.attention, b, n, written, prefill)
        if block.cross is not None:
            yield from _attention(d, block.cross, b, n, source, False)
    if block.state is not None:
        yield _state(d, block.state, b, n, prefill)
    # rows alone say which experts are visited
    alike = not (feed_forward.is_moe and d.expert_correlation)
    if feed_forward.is_moe:
        yield distinct.of(_experts(d, block, rows, one)) if alike else _experts(d, block, b, n)
    if p.quantises or p.unpacks or (feed_forward.is_moe and p.of("experts").quantises):
        beside = _beside_products(d, block, projections, *((rows, one) if alike else (b, n)))
        yield from map(distinct.of, beside) if alike else beside
    width = (
        feed_forward.shared_width if feed_forward.is_moe else feed_forward.width
    ) / d.tensor_parallel
    work = ops.elementwise(rows, hidden, width, activation_bytes=p.residual_bytes)
    timing = _timed(
        d, work, lambda: kernels.elementwise(d.device, work, fused=_fused_norms(d)), p.activations
    )
    yield distinct.of(scaled(Operation("elementwise", timing, work), block.sublayers / 2.0))
    if block.attention.qk_norm and d.head_norm_kernels:
        yield distinct.of(added.head_norms(d, block.attention, rows))
    if d.tensor_parallel > 1:
        one_shot = rows <= d.one_shot_rows if d.one_shot_rows else None
        message = rows * hidden * p.residual_bytes
        backend = d.reductions.on(d.device, d.tensor_parallel)
        timing = kernels.allreduce(
            d.device,
            message,
            d.tensor_parallel,
            graphs=d.graphs,
            backend=backend,
            one_shot=one_shot,
        )
        for _ in range(block.sublayers):
            yield distinct.of(Operation("allreduce", timing, Work(np.zeros(()), np.zeros(()))))


def _beside_products(
    d: Deployment, block: Block, projections: tuple[Projection, ...], b: Array, n: Array
) -> Iterator[Operation]:
    """Narrowing of the inputs of the block's products, and unpacking of their weights."""
    hidden, f = d.architecture.hidden, block.feed_forward
    shapes = {projection[0]: sharded(projection, d.tensor_parallel) for projection in projections}
    routed = f.is_moe and d.precision.of("experts").quantises
    if shapes and (d.precision.quantises or routed):
        done = d.quantised_inputs
        read = {
            role: k for role, (_, k) in shapes.items() if d.precision.quantises and role != "router"
        }
        if routed and "experts" not in done:
            # what enters an expert enters the router; and its inner vector
            read |= {
                "router": shapes["router"][1],
                "expert_down": f.experts_per_token * f.width / d.tensor_parallel,
            }
        inputs = {_SAME_INPUT.get(role, role): k for role, k in read.items()}
        left = [k for name, k in inputs.items() if name not in done]
        if left:
            quantising = d if d.precision.quantises else _in_part(d, "experts")
            yield added.narrowing(quantising, b * n * sum(left), len(left))
    if d.precision.unpacks and shapes:
        weights = np.asarray(sum(outputs * k for outputs, k in shapes.values()))
        if f.is_moe:
            weights = (
                weights + _visited(d, block, b, n) * f.expert_parameters(hidden) / d.tensor_parallel
            )
        yield added.unpacking(d, weights, 1)


def _fused_norms(d: Deployment) -> int:
    """Kernels of a layer that the all-reduces after attention and feed-forward do without."""
    return 2 if d.norms_in_reductions and d.tensor_parallel > 1 else 0


def _gemm(d: Deployment, projection: Projection, rows: Array, name: str = "gemm") -> Operation:
    n, k = sharded(projection, d.tensor_parallel)
    p = d.precision
    work = ops.gemm(rows, n, k, weight_bytes=p.read_weight_bytes, activation_bytes=p.residual_bytes)
    if p.quantises:  # inputs were quantised before, outputs are not
        work = work._replace(bytes=work.bytes - rows * k * (p.residual_bytes - p.activation_bytes))
    if p.arithmetic_ratio < 1.0:
        work = work._replace(flops=work.flops * p.arithmetic_ratio)
    read = k * (p.activation_bytes / p.residual_bytes) if p.quantises else k

    def calibrated() -> Timing:
        return kernels.gemm(d.device, work, rows, p.activations, outputs=n, read=read)

    timing = _timed(d, work, calibrated, p.activations)
    if name == "gemm":
        timing = _walked(d, projection[0], timing, k)
    return Operation(
        name, timing, work, projection[0], sizes={"rows": rows, "outputs": n, "inputs": k}
    )


def _adapted(
    d: Deployment, adapters: Adapters, block: Block, b: Array, n: Array
) -> Iterator[Operation]:
    """The small products beside those of a layer, each a launch of its own."""
    rows, dtype = b * n, _wide(d)
    for role, work in adapter_work(
        block,
        adapters,
        hidden=d.architecture.hidden,
        tensor_parallel=d.tensor_parallel,
        requests=b,
        rows=rows,
        activation_bytes=d.precision.residual_bytes,
    ):
        if d.fidelity == "calibrated":
            timing = kernels.gemm(d.device, work, rows, dtype)
        else:
            timing = kernels.roofline(d.device, work, dtype)
        yield Operation("adapters", timing, work, role)


def _walked(d: Deployment, role: str, timing: Timing, inputs: float) -> Timing:
    """A product's time where no kernel splits its inputs: at least a walk through their blocks.

    Queries and latent keys are projected down in one product; some products stay in 16 bits.
    """
    if not d.product_walk_s or role in _NEVER_WALKED:
        return timing
    walk_s = d.product_walk_s * np.ceil(inputs / _WALKED_INPUTS)
    longer = np.maximum(walk_s - timing.seconds, 0.0)
    return timing._replace(seconds=timing.seconds + longer, launch_s=timing.launch_s + longer)


def _of_parts(
    d: Deployment, product: Operation, sparse: SparseFeedForward, rows: Array
) -> Operation:
    """A product of which every row uses a part of the weights, and all rows together a larger
    one.
    """
    # correlated rows choose alike: they count as fewer that choose by themselves
    independent = 1.0 + (np.maximum(rows, 1.0) - 1.0) * (1.0 - sparse.correlation)
    read, work = 1.0 - (1.0 - sparse.active_ratio) ** independent, product.work
    few = Work(
        work.flops * sparse.active_ratio,
        work.bytes * read,
        work.written_bytes * sparse.active_ratio,
    )
    timing = product.timing
    compute, memory = timing.compute_s * sparse.active_ratio, timing.memory_s * read
    saved = np.maximum(timing.compute_s, timing.memory_s) - np.maximum(compute, memory)
    seconds = np.maximum(timing.seconds - saved, np.maximum(compute, memory))
    return product._replace(work=few, timing=Timing(seconds, compute, memory, timing.launch_s))


class _Rows(NamedTuple):
    """Rows of products: the distinct ones, and where each point finds its own where many points
    share few.
    """

    few: Array
    back: Index | None

    def of(self, operation: Operation) -> Operation:
        """An operation that was timed at the distinct rows."""
        return operation._replace(back=self.back)


def _distinct(rows: Array) -> _Rows:
    if rows.ndim != 1 or rows.size < _MANY_POINTS:
        return _Rows(rows, None)
    whole = rows.astype(np.intp)
    if rows.max() <= rows.size and np.array_equal(whole, rows):  # counting is faster than sorting
        occurs = np.zeros(int(rows.max()) + 1, dtype=bool)
        occurs[whole] = True
        few, back = np.flatnonzero(occurs).astype(np.float64), (np.cumsum(occurs) - 1)[whole]
    else:
        few, back = np.unique(rows, return_inverse=True)
    return _Rows(few, back) if 4 * few.size <= rows.size else _Rows(rows, None)


def _attention(
    d: Deployment, attention: Attention, b: Array, n: Array, context: Array, prefill: bool
) -> Iterator[Operation]:
    p, dtype = d.precision, _wide(d)
    if d.sparse_attention is not None and not prefill and d.sparse_attention.token_ratio < 1.0:
        reach = (
            context if attention.window is None else np.minimum(context, float(attention.window))
        )
        yield added.selection(d, attention, b, n, reach)
        context = added.selected_tokens(d, reach)
    heads = attention.heads / d.tensor_parallel
    read = context if attention.window is None else np.minimum(context, float(attention.window))
    if p.cache_transform is not None:
        yield from added.cache_operations(d, attention, b, n, read)
    if attention.expands_prompts and prefill:
        yield _expanded_latent_attention(d, attention, b, n, context)
        return
    if attention.is_mla:
        yield from _latent_attention(d, attention, b, n, context, read)
        return
    kv_heads = max(1.0, attention.kv_heads / d.tensor_parallel)
    work = ops.attention(
        b,
        n,
        context,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=attention.head_dim,
        window=attention.window,
        kv_bytes=p.kv_bytes,
        activation_bytes=p.residual_bytes,
        mask=attention.mask,
        block_tokens=attention.block_tokens,
    )
    together = attention.block_tokens if attention.mask == "causal" else 0
    work = _with_latest(d, attention, work, b, read)

    def calibrated() -> Timing:
        if prefill:
            return kernels.prefill_attention(
                d.device,
                work,
                dtype,
                requests=b,
                query_tokens=n,
                context=context,
                heads=heads,
                head_dim=attention.head_dim,
                block_tokens=together,
                window=attention.window,
            )
        split = kernels.split_attention(
            d.device,
            work,
            requests=b,
            query_tokens=n,
            context=read,
            heads=heads,
            kv_heads=kv_heads,
            dtype=dtype,
            head_dim=attention.head_dim * p.tile_ratio,
        )
        if d.split_verify:
            return split
        whole = kernels.unsplit_attention(
            d.device,
            work,
            requests=b,
            query_tokens=n,
            context=context,
            heads=heads,
            kv_heads=kv_heads,
            dtype=dtype,
            block_tokens=together,
            window=attention.window,
        )
        # kernels of two libraries: several never take less than one
        alone = Work(work.flops / n, work.bytes)
        one = kernels.split_attention(
            d.device,
            alone,
            requests=b,
            query_tokens=np.ones_like(n),
            context=read,
            heads=heads,
            kv_heads=kv_heads,
            dtype=dtype,
            head_dim=attention.head_dim * p.tile_ratio,
        )
        return _where(n > 1, _where(whole.seconds >= one.seconds, whole, one), split)

    sizes = {
        "requests": b,
        "query_tokens": n,
        "context": read,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": attention.head_dim,
        "beside_requests": 0.0,
        "beside_context": 0.0,
    }
    operation = Operation("attention", _timed(d, work, calibrated, dtype), work, sizes=sizes)
    if prefill and d.sparse_attention is not None and d.sparse_attention.prompt_ratio < 1.0:
        yield added.prompt_selection(d, attention, b, n)
        operation = scaled(operation, d.sparse_attention.prompt_ratio)
    yield operation


def _latent_attention(
    d: Deployment, attention: Attention, b: Array, n: Array, context: Array, read: Array
) -> Iterator[Operation]:
    p, heads = d.precision, attention.heads / d.tensor_parallel
    work = ops.latent_attention(
        b,
        n,
        context,
        heads=heads,
        latent=attention.kv_lora_rank,
        rope=attention.rope_dim,
        kv_bytes=p.kv_bytes,
        activation_bytes=p.residual_bytes,
        chosen=attention.index_tokens,
    )
    work = _with_latest(d, attention, work, b, read)
    if attention.index_heads:
        yield added.indexing(d, attention, b, n, context)
    if attention.index_tokens:
        context = np.minimum(context, float(attention.index_tokens))
    # its kernel computes in the format of the cache where it was measured in that format
    dtype = p.kv if "mla" in d.device.formats.get(p.kv, ()) else _wide(d)
    device = d.device.in_format(dtype)

    def latent() -> Timing:
        rows = heads * n
        own = kernels.latent_attention(device, work, dtype, context=context, requests=b, rows=rows)
        # tiles of few rows read again, a padded one does not
        filled = np.maximum(rows, float(kernels.ROW_TILE))
        more = work._replace(flops=work.flops * filled / rows)
        padded = kernels.latent_attention(
            device, more, dtype, context=context, requests=b, rows=filled
        )
        return _where(own.seconds <= padded.seconds, own, padded)

    timing = _timed(d, work, latent, dtype)
    yield Operation("mla", timing, work, sizes={"requests": b, "context": context, "heads": heads})


def _expanded_latent_attention(
    d: Deployment, attention: Attention, b: Array, n: Array, context: Array
) -> Operation:
    """Latent attention of prompts, which engines compute as ordinary attention of wide keys.

    With the constants of prompts and the width of keys, 1,110 rows of TensorRT-LLM's kernel on an
    H100 and 1,410 on a B200 (8 heads and more, 128 to 32,768 tokens) are met with a median error of
    9 % and a bias of 5 and -3 %; vLLM's and SGLang's kernels on them are as fast from 2,048 tokens
    on, but SGLang's on Hopper, which were timed in the absorbed form.
    """
    dtype, heads = _wide(d), attention.heads / d.tensor_parallel
    work = ops.expanded_latent_attention(
        b,
        n,
        context,
        heads=heads,
        latent=attention.kv_lora_rank,
        rope=attention.rope_dim,
        nope=attention.nope_dim,
        value=attention.value_dim,
        activation_bytes=d.precision.residual_bytes,
    )
    timing = _timed(
        d,
        work,
        lambda: kernels.prefill_attention(
            d.device,
            work,
            dtype,
            requests=b,
            query_tokens=n,
            context=context,
            heads=heads,
            head_dim=attention.nope_dim + attention.rope_dim,
        ),
        dtype,
    )
    return Operation("mla", timing, work, sizes={"requests": b, "context": context, "heads": heads})


def _wide(d: Deployment) -> str:
    """Format that attention and states compute in: 16 bits, unless the device lacks them."""
    dtype = d.precision.attention
    return dtype if dtype in d.device.peak_flops_per_s else d.precision.activations


def _with_latest(d: Deployment, attention: Attention, work: Work, b: Array, read: Array) -> Work:
    """The work with the latest tokens read as they were, where a cache transform leaves them so."""
    t = d.precision.cache_transform
    if t is None or not t.dense_tokens:
        return work
    return work._replace(bytes=work.bytes + added.dense_bytes(d, attention, b, read))


def _state(d: Deployment, layer: StateLayer, b: Array, n: Array, prefill: bool) -> Operation:
    """Convolution and state update, on the vector units while decoding; no kernel of these was ever
    measured here.
    """
    work = state_update.state_update(
        layer,
        b,
        n,
        activation_bytes=d.precision.residual_bytes,
        rollback=d.rollback,
        prefill=prefill,
        share=1.0 / d.tensor_parallel,
    )
    paired = prefill and layer.kind != "mamba"
    dtype = _wide(d) if paired or "fp32" not in d.device.peak_flops_per_s else "fp32"
    return Operation(
        "state", _timed(d, work, lambda: kernels.state_update(d.device, work, dtype), dtype), work
    )


def _visited(d: Deployment, block: Block, b: Array, n: Array) -> Array:
    tokens = ops.independent_tokens(b, n, d.expert_correlation)
    return ops.distinct_experts(
        tokens, block.feed_forward.experts, block.feed_forward.experts_per_token
    )


def _padded(size: float, multiple: int) -> float:
    """A width as a kernel stores it; 1: as it is."""
    return size if multiple == 1 else float(multiple * math.ceil(size / multiple))


def _experts(d: Deployment, block: Block, b: Array, n: Array) -> Operation:
    visited = _visited(d, block, b, n)
    d = _in_part(d, "experts")
    f, p, c = block.feed_forward, d.precision, d.device.constants
    hidden = _padded(f.expert_input(d.architecture.hidden), d.padded_experts[0])
    width = _padded(f.width / d.tensor_parallel, d.padded_experts[1])

    def work_of(few_rows: float, many_rows: float) -> Work:
        work = ops.experts(
            b * n,
            visited,
            hidden=hidden,
            width=width,
            matrices=3 if f.gated else 2,
            experts_per_token=f.experts_per_token,
            weight_bytes=p.read_weight_bytes,
            experts=f.experts,
            few_rows=few_rows,
            many_rows=many_rows,
            # read as products are, written in 16 bits
            activation_bytes=(p.residual_bytes + p.activation_bytes) / 2.0,
        )
        ratio = min(p.arithmetic_ratio, 1.0)
        return work if ratio == 1.0 else work._replace(flops=work.flops * ratio)

    work = work_of(c.moe.few_rows, c.moe.many_rows)

    timing = _timed(
        d,
        work,
        lambda: kernels.engine_experts(
            d.device,
            work_of,
            visited,
            p.activations,
            kernel=d.expert_kernel,
            tokens=b * n,
            hidden=hidden,
            width=kernels.stored_width(width, p.read_weight_bytes),
            row_bytes=b * n * f.experts_per_token * (hidden + width) * p.residual_bytes,
        ),
        p.activations,
    )
    sizes: dict[str, Number] = {
        "tokens": b * n,
        "hidden": hidden,
        "width": width,
        "experts": f.experts,
        "experts_per_token": f.experts_per_token,
        "visited": visited,
    }
    return Operation("moe", timing, work, sizes=sizes)


def _head(d: Deployment, b: Array, n: Array, logits: Logits) -> Iterator[Operation]:
    if isinstance(logits, str):
        if logits == "none":
            return
        logits = n if logits == "all" else np.ones_like(n)
    d = _in_part(d, "head")
    distinct = _distinct(b * logits)
    rows, head = distinct.few, ("head", d.architecture.vocab, d.architecture.hidden)
    if d.precision.quantises:
        yield distinct.of(added.narrowing(d, rows * d.architecture.hidden, 1))
    if d.precision.unpacks:
        yield added.unpacking(d, d.architecture.head_parameters / d.tensor_parallel, 1)
    yield distinct.of(_gemm(d, head, rows, "head"))
    if d.fidelity == "calibrated":
        sampler = kernels.sampler(d.device, rows)
        yield distinct.of(Operation("sampler", sampler, Work(np.zeros(()), np.zeros(()))))


def _timed(d: Deployment, work: Work, calibrated: Callable[[], Timing], dtype: str) -> Timing:
    if d.fidelity == "calibrated":
        return calibrated()
    return kernels.roofline(d.device, work, dtype)


def _where(condition: Mask, yes: Timing, no: Timing) -> Timing:
    return Timing(*(np.where(condition, y, x) for y, x in zip(yes, no, strict=True)))
