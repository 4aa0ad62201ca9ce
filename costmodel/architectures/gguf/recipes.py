"""Which block formats does llama.cpp give the matrices of a model under the names that people type
(`q4_k_m`)?

A recipe is a rule per kind of tensor and layer, so that the shares follow from the model.
Transcribed from `llama_tensor_get_type_impl` and `tensor_type_fallback` of llama.cpp
(src/llama-quant.cpp, commit 007dbbf), without the importance matrix. Leaves out the I-quants,
tensors that a maker sets by hand, and the rules of Falcon.
"""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from costmodel.architectures.architecture import Architecture, Block
from costmodel.architectures.attention import Attention, Projection
from costmodel.architectures.part_formats import PartFormats, mixed

# the format of most tensors, by the name of the recipe
RECIPES = {
    "q2_k": "q2_k",
    "q3_k_s": "q3_k",
    "q3_k_m": "q3_k",
    "q3_k_l": "q3_k",
    "q4_0": "q4_0",
    "q4_1": "q4_1",
    "q4_k_s": "q4_k",
    "q4_k_m": "q4_k",
    "q5_0": "q5_0",
    "q5_1": "q5_1",
    "q5_k_s": "q5_k",
    "q5_k_m": "q5_k",
    "q6_k": "q6_k",
    "q8_0": "q8_0",
    "mxfp4_moe": "q8_0",
}
_SUPER_BLOCK, _BLOCK = 256, 32
_UNEVEN_ROWS = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}
_EIGHT_EXPERTS = ("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m")


@lru_cache(maxsize=256)
def recipe_formats(recipe: str, architecture: Architecture) -> PartFormats:
    """The formats of the parts of a model that was quantised by a recipe.

    Args:
        recipe: a name of `RECIPES`.
        architecture: the model; its layers are taken to be alike where their order decides.

    >>> from costmodel.architectures.library import load_model
    >>> recipe_formats("q4_k_m", load_model("llama-3.1-8b")).head
    'q6_k'
    """
    matrices: Counter[str] = Counter()
    experts: Counter[str] = Counter()
    hidden = architecture.hidden
    for block, count in architecture.blocks:
        for role, values, inputs in _tensors(block, hidden):
            _add(matrices, recipe, role, values * count, inputs, architecture, block)
        feed_forward = block.feed_forward
        for role, values, inputs in _matrices(feed_forward.expert_projections(hidden)):
            whole = values * count * feed_forward.experts
            if recipe == "mxfp4_moe":
                experts["fp4-g32"] += round(whole)
            else:
                _add(experts, recipe, role, whole, inputs, architecture, block)
    base = RECIPES[recipe]
    head = "q8_0" if base == "q8_0" or hidden % _SUPER_BLOCK else "q6_k"
    embedding = head if architecture.tied else _fitting(base, hidden)
    return PartFormats(
        matrices=mixed(matrices) or base,
        experts=mixed(experts) or None,
        head=_fitting(head, hidden),
        embedding=_fitting(embedding, hidden),
    )


def _add(
    counts: Counter[str],
    recipe: str,
    role: str,
    values: float,
    inputs: int,
    model: Architecture,
    block: Block,
) -> None:
    """Count a kind of tensor over all layers, of which each may have a format of its own."""
    if role == "router":
        counts["fp32"] += round(values)
        return
    layers = model.layers
    for layer in range(layers):
        name = _fitting(_format(recipe, role, layer, layers, model, block), inputs)
        counts[name] += round(values / layers)


def _format(
    recipe: str, role: str, layer: int, layers: int, model: Architecture, block: Block
) -> str:
    """The format of one tensor before it is fitted to the length of its rows."""
    base, few = RECIPES[recipe], block.feed_forward.experts == 8
    if recipe == "mxfp4_moe":
        return base
    if few and role in ("key", "value"):
        return "q8_0"
    if few and role == "output":
        return "q5_k" if recipe in _EIGHT_EXPERTS else base
    more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
    shared = block.attention.heads / max(block.attention.kv_heads, 1)
    wider = {
        "output": {"q2_k": "q3_k", "q3_k_m": "q4_k", "q3_k_l": "q5_k"},
        "down": {
            "q2_k": "q3_k",
            "q3_k_m": "q5_k" if layer < layers // 16 else "q4_k",
            "q3_k_l": "q5_k",
            "q4_k_s": "q5_k" if layer < layers // 8 else base,
            "q4_k_m": "q6_k" if more else base,
            "q5_k_m": "q6_k" if more else base,
        },
        "value": {
            "q2_k": "q4_k" if shared >= 4 else "q3_k",
            "q3_k_m": "q5_k" if layer < 2 else "q4_k",
            "q3_k_l": "q5_k",
            "q4_k_s": "q5_k" if layer < 4 else base,
            "q4_k_m": "q6_k" if more else base,
            "q5_k_m": "q6_k" if more else base,
        },
    }
    name = wider.get(role, {}).get(recipe, base)
    if role == "value" and layers == 80 and shared > 1 and name in ("q3_k", "q4_k"):
        return "q5_k"  # the models that llama.cpp calls 70B
    return name


def _fitting(name: str, inputs: int) -> str:
    """The format of rows that no whole number of blocks fills."""
    if name.endswith("_k") and inputs % _SUPER_BLOCK:
        name = _UNEVEN_ROWS[name]
    return "fp16" if inputs % _BLOCK else name


def _tensors(block: Block, hidden: int) -> Iterator[tuple[str, float, int]]:
    """Role, values and row length of every matrix of a layer but the routed experts'."""
    for attention in filter(None, (block.attention, block.cross)):
        yield from _attention(attention, hidden)
    state = block.state.projections(hidden) if block.state else ()
    yield from _matrices((*state, *block.feed_forward.projections(hidden), *block.extra))


def _attention(attention: Attention, hidden: int) -> Iterator[tuple[str, float, int]]:
    for name, outputs, inputs in attention.projections(hidden):
        if name == "qkv":
            queries = attention.query_width * (2 if attention.gated else 1)
            yield "query", queries * inputs, inputs
            for role in ("key", "value"):
                yield role, (outputs - queries) * inputs / 2, inputs
        elif name == "kv":
            for role in ("key", "value"):
                yield role, outputs * inputs / 2, inputs
        else:
            yield (
                {"output": "output", "kv_up": "value"}.get(name, "query"),
                outputs * inputs,
                inputs,
            )


def _matrices(projections: tuple[Projection, ...]) -> Iterator[tuple[str, float, int]]:
    for name, outputs, inputs in projections:
        role = (
            "down"
            if name in ("down", "shared_down", "expert_down")
            else "router"
            if name == "router"
            else "rest"
        )
        yield role, float(outputs * inputs), inputs
