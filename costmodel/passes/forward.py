"""What does one pass of one model cost: b requests of n new tokens each over a cache?

The front door of the passes: it chooses between the calibrated sum of operations and passes that
were measured whole, and adds what a device waits for: weights from the host's memory, a host that
launches layer by layer. Leaves out everything between passes (see `costmodel.answers.steps.step`).
"""

from dataclasses import replace

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.passes.calibrated import Logits, calibrated_pass
from costmodel.passes.deployment import Deployment, Fidelity
from costmodel.passes.kernels import Timing
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.prefixes import shared_prefix_cost
from costmodel.passes.streaming import with_streaming
from costmodel.passes.totals import Operation, Operations, PassCost, added
from costmodel.transforms.declared import ContextTransform

__all__ = [
    "Deployment",
    "Fidelity",
    "Logits",
    "Operation",
    "PassCost",
    "pass_cost",
    "with_launches",
]


def pass_cost(
    deployment: Deployment,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits = "all",
    prefill: bool = False,
) -> PassCost:
    """Cost of one pass of `batch` requests with `query_tokens` new tokens each over `context`
    cached ones.

    Example:
        >>> from hardware_profiles.loader import load_device
        >>> from costmodel.architectures.library import load_model
        >>> from costmodel.passes.precision import Precision
        >>> model, device = load_model("llama-3.1-8b"), load_device("h100-sxm")
        >>> deployment = Deployment(architecture=model, device=device, precision=Precision())
        >>> cost = pass_cost(deployment, batch=1, query_tokens=1, context=1024)
        >>> bool(4.5e-3 < cost.total_s < 8e-3), str(cost.limit)
        (True, 'bandwidth')

    Args:
        deployment: model, device and how they run.
        batch: requests b, > 0; arrays broadcast, and fractions are allowed (mean values).
        query_tokens: new tokens per request n, > 0.
        context: cached tokens per request, >= 0.
        logits: rows that reach the output head: `all` tokens (decode, verify), the `last` of each
            request (prefill), `none`, or so many of each request.
        prefill: use the prompt-processing form of attention; of an encoder-decoder, run the encoder
            over these tokens.

    Raises:
        InputError: a negative, zero or non-finite argument.
    """
    if deployment.source_tokens == 0 and deployment.architecture.encoder is not None:
        deployment = replace(deployment, architecture=deployment.architecture.without_encoder)
    shape = {"batch": batch, "query_tokens": query_tokens, "context": context}
    encoder = deployment.architecture.encoder
    if prefill and encoder is not None:
        return _encoded(deployment, encoder, **shape, logits=logits)
    if deployment.text is not None:
        return _summarised(deployment, deployment.text, **shape, logits=logits, prefill=prefill)
    return _one_stack(deployment, **shape, logits=logits, prefill=prefill)


def _one_stack(
    deployment: Deployment,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits,
    prefill: bool = False,
) -> PassCost:
    """A pass over the layers of one stack: a decoder, whether it has an encoder or not."""
    if deployment.fidelity == "measured":
        # it reads tables: pyarrow is loaded for this fidelity alone
        from costmodel.passes.measured import measured_pass

        return measured_pass(
            deployment,
            batch=batch,
            query_tokens=query_tokens,
            context=context,
            logits=logits,
            prefill=prefill,
        )
    # only decoding reads a shared prefix once for all requests
    prefix = np.minimum(deployment.shared_prefix_tokens, context)
    if np.any(prefix > 0) and not prefill:
        cost = shared_prefix_cost(
            deployment,
            batch=batch,
            query_tokens=query_tokens,
            prefix=prefix,
            unique=context - prefix,
            logits=logits,
        )
    else:
        cost = calibrated_pass(
            deployment,
            batch=batch,
            query_tokens=query_tokens,
            context=context,
            logits=logits,
            prefill=prefill,
        )
    if deployment.host_weights_ratio or deployment.host_cache_ratio:
        cost = with_streaming(deployment, cost, batch=batch, context=context)
    if not deployment.host_layer_s:
        return cost
    return with_launches(deployment, cost, layers=_layers_run(deployment))


def launched_s(deployment: Deployment) -> float:
    """Seconds in which the host launches a pass of a decoder, which takes no less; 0 where passes
    are captured.
    """
    if not deployment.host_layer_s:
        return 0.0
    return _layers_run(deployment) * deployment.host_layer_s + deployment.host_pass_s


def _layers_run(deployment: Deployment) -> float:
    """Layers of a pass; a mean where tokens skip layers."""
    schedule = deployment.schedule
    share = sum(schedule.shares) / len(schedule.shares) if schedule is not None else 1.0
    return share * deployment.architecture.layers


def with_launches(deployment: Deployment, cost: PassCost, *, layers: float) -> PassCost:
    """A pass that is launched layer by layer: the device waits where the host takes longer than its
    work.

    Args:
        deployment: gives the host's seconds of a layer and of a pass; 0 where passes are captured.
        cost: of the pass without a host.
        layers: that it runs; a mean where tokens skip layers.
    """
    host_s = layers * deployment.host_layer_s + deployment.host_pass_s
    if not host_s:
        return cost
    # launches run ahead of the device, so only what exceeds its work is waited for
    hidden = np.zeros(()) if deployment.host_waits else cost.total_s
    waiting = np.maximum(host_s - hidden, 0.0)
    zero = np.zeros(())
    host = Operation("host", Timing(waiting, zero, zero, waiting), Work(zero, zero))
    return replace(
        cost,
        seconds={**cost.seconds, "host": waiting},
        launch_s=cost.launch_s + waiting,
        operations=Operations(cost.operations, (host,)),
    )


def _encoded(
    d: Deployment,
    encoder: Architecture,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits,
) -> PassCost:
    """A prompt of an encoder-decoder: its encoder reads it, and where logits are asked for the
    decoder begins.

    The decoder then has one token, that which begins every output. An input of fixed length is read
    beside a prompt that the decoder itself takes as any decoder does.
    """
    reading = replace(d, architecture=encoder, schedule=None, source_tokens=None)
    fixed = float(d.architecture.source_positions)
    if fixed:
        heard = pass_cost(
            reading, batch=batch, query_tokens=fixed, context=0.0, logits="none", prefill=True
        )
        own = _one_stack(
            d, batch=batch, query_tokens=query_tokens, context=context, logits=logits, prefill=True
        )
        return added(heard, own)
    read = pass_cost(
        reading,
        batch=batch,
        query_tokens=query_tokens,
        context=context,
        logits="none",
        prefill=True,
    )
    if isinstance(logits, str) and logits == "none":
        return read
    cached = np.asarray(query_tokens, dtype=np.float64) + np.asarray(context, dtype=np.float64)
    return added(
        read,
        _one_stack(
            replace(d, source_tokens=None),
            batch=batch,
            query_tokens=1.0,
            context=cached,
            logits=logits,
        ),
    )


def _summarised(
    d: Deployment,
    text: ContextTransform,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits,
    prefill: bool,
) -> PassCost:
    """A pass where fewer vectors stand for a text: decoding reads those, a prompt is read by the
    encoder first.
    """
    whole, before = (
        np.asarray(query_tokens, dtype=np.float64),
        np.asarray(context, dtype=np.float64),
    )
    plain, cached = replace(d, text=None), _cached(text, before)
    if not prefill:
        return pass_cost(plain, batch=batch, query_tokens=whole, context=cached, logits=logits)
    rows = np.maximum(_cached(text, whole), 1.0)
    cost = pass_cost(
        plain, batch=batch, query_tokens=rows, context=cached, logits=logits, prefill=True
    )
    if not text.encoder_ratio:
        return cost
    layers = max(1, round(text.encoder_ratio * d.architecture.layers))
    encoder = replace(plain, architecture=d.architecture.with_layers(layers))
    return added(
        cost,
        pass_cost(
            encoder, batch=batch, query_tokens=whole, context=0.0, logits="none", prefill=True
        ),
    )


def _cached(text: ContextTransform, tokens: Array) -> Array:
    """Vectors that stand for so many tokens."""
    latest = np.minimum(tokens, float(text.latest_tokens))
    return np.asarray(latest + text.kept_ratio * (tokens - latest))
