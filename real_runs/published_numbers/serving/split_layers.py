"""How long does one attention layer take, and what does a deployment of attention apart from
feed-forward layers serve?

Rows of Step-3's layer times and deployments. Leaves out the prices of tokens (`token_cost`).
"""

from dataclasses import replace

from costmodel.architectures.architecture import Architecture, Block
from costmodel.architectures.library import load_model
from costmodel.parallel.disaggregation import split_layers
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.forward import Deployment, Operation, pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from hardware_profiles.stated_names import stated_device
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.deployed import batch_of
from real_runs.published_numbers.reading.amounts import token_count
from real_runs.published_numbers.reading.names import system_name
from real_runs.published_numbers.reading.table import PublishedRow

_FP8 = Precision(weights="fp8", activations="fp8", kv="fp8")
_FP8_PRODUCTS = Precision(weights="fp8", activations="fp8", kv="bf16")
_NODE_DEVICES = 8
_MICRO_BATCHES = 3  # section 4: three circulate between attention and feed-forward nodes


def answers(row: PublishedRow) -> bool:
    """Whether a row asks for one attention layer, or for a deployment of attention and feed-forward
    nodes.
    """
    return row.unit == "us/layer" or (row.unit == "tok/s/GPU" and row.own_facts.nodes is not None)


def predict(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> Prediction:
    """Microseconds of a layer, or tokens per second and device of a deployment.

    Args:
        row: for which `answers` holds.
        beside: rows of the same source.

    Raises:
        InputError: a model, batch or context that the row does not state.

    Reference: Wang et al., "Step-3 is Large yet Affordable" (arXiv:2507.19427), section 7.3.
    """
    context = token_count(row.prompt)
    if context is None:
        raise InputError("states no context", key="prompt_len", value=row.prompt)
    device = load_device(stated_device(row.hardware.removeprefix("Hopper ")).profile)
    if row.unit == "us/layer":
        if not row.devices.isdigit():
            raise InputError("states no number of devices", key="n_gpus", value=row.devices or None)
        model = "deepseek-v3" if "MLA" in row.target else "step-3"
        requests = batch_of(row) / int(row.devices)
        seconds = _attention_s(model, requests, float(context), _FP8_PRODUCTS, device)
        remark = "8-bit products, a 16-bit cache, the requests dealt out to the devices"
        return Prediction(row=row, predicted=1e6 * seconds, remarks=(remark,))
    remark = "three micro-batches, nodes of eight devices; every layer taken as one with experts"
    return Prediction(row=row, predicted=_deployed(row, float(context), device), remarks=(remark,))


def _deployed(row: PublishedRow, context: float, device: Device) -> float:
    """Tokens per second and device of attention nodes beside feed-forward nodes."""
    assert row.own_facts.nodes is not None
    (attention, feed_forward), batch = row.own_facts.nodes, batch_of(row)
    precision = _FP8_PRODUCTS if "bf16 attention" in row.precision else _FP8
    name = system_name(row.system).casefold()
    micro_batch = batch / _MICRO_BATCHES
    requests = micro_batch / (_NODE_DEVICES * attention)
    attention_s = _attention_s(name, requests, context, precision, device, router=True)
    feed_forward_s = _feed_forward_s(name, micro_batch, feed_forward, precision, device)
    model = load_model(name)
    link = ParallelPlan().link(device, 2 * _NODE_DEVICES)
    message_s = link.latency_s + requests * model.hidden * 2.0 / link.bytes_per_s
    split = split_layers(
        attention_s,
        feed_forward_s,
        message_s,
        layers=model.layers,
        micro_batches=_MICRO_BATCHES,
        requests=float(batch),
    )
    return float(split.tokens_per_s) / (_NODE_DEVICES * (attention + feed_forward))


def _attention_s(
    name: str,
    requests: float,
    context: float,
    precision: Precision,
    device: Device,
    *,
    router: bool = False,
) -> float:
    """Seconds of one layer's attention with the products around it, and of the router where it runs
    there.
    """
    model, block = _expert_layer(name)
    roles = {role for role, _, _ in block.attention.projections(model.hidden)}
    if router:
        roles.add("router")
    operations = _operations(model, requests, context, precision, device)
    return sum(
        _seconds(op) for op in operations if op.name in ("attention", "mla") or op.role in roles
    )


def _feed_forward_s(
    name: str, tokens: float, nodes: int, precision: Precision, device: Device
) -> float:
    """Seconds of one layer's experts on feed-forward nodes: each node has its share of the routed
    experts and splits them over its devices; all devices split the shared expert.

    Reference: the same, section 7.1: "in a hybrid EP+TP way"; routers run on attention nodes.
    """
    model, block = _expert_layer(name)
    share = replace(block.feed_forward, experts=block.feed_forward.experts // nodes)
    node = replace(model, blocks=((replace(block, feed_forward=share), 1),))
    routed = _operations(node, tokens / nodes, 1.0, precision, device, _NODE_DEVICES)
    whole = _operations(model, tokens, 1.0, precision, device, _NODE_DEVICES * nodes)
    return sum(_seconds(op) for op in routed if op.name == "moe") + sum(
        _seconds(op) for op in whole if op.role.startswith("shared")
    )


def _operations(
    model: Architecture,
    requests: float,
    context: float,
    precision: Precision,
    device: Device,
    tensor_parallel: int = 1,
) -> tuple[Operation, ...]:
    """Operations of a layer, one new token a request."""
    d = Deployment(
        architecture=model, device=device, precision=precision, tensor_parallel=tensor_parallel
    )
    cost = pass_cost(d, batch=requests, query_tokens=1.0, context=context, logits="none")
    return tuple(cost.operations)


def _seconds(operation: Operation) -> float:
    return float(operation.timing.seconds)


def _expert_layer(name: str) -> tuple[Architecture, Block]:
    """A model of its most frequent layer alone, and that layer."""
    model = load_model(name)
    block = max(model.blocks, key=lambda pair: pair[1])[0]
    return replace(model, blocks=((block, 1),)), block
