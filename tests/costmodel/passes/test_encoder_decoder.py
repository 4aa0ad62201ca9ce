"""Encoder-decoders: an encoder that reads once, and a decoder whose layers attend to what it
read."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate, mixed_prefill_s, prefill_s, reading
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.memory import kv_bytes
from costmodel.passes.precision import Precision
from costmodel.passes.transform import apply
from costmodel.transforms.declared import ContextTransform, EncoderSplit
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

T5, WHISPER = load_model("t5-v1.1-large"), load_model("whisper-large-v2")
TOKENS, FEW = st.integers(1, 4000), st.integers(1, 16)
FIDELITIES = st.sampled_from(("datasheet", "calibrated"))


def deployed(model, fidelity="datasheet", **changes):
    return Deployment(
        architecture=model,
        device=load_device("h100-sxm"),
        precision=Precision(),
        fidelity=fidelity,
        **changes,
    )


def prompt(d, tokens, context=0.0, logits="none", batch=1):
    return pass_cost(
        d, batch=batch, query_tokens=tokens, context=context, logits=logits, prefill=True
    )


def decode(d, context, batch=1, new=1):
    return pass_cost(d, batch=batch, query_tokens=new, context=context)


def alike(one, other):
    for name in set(one.seconds) | set(other.seconds):
        here, there = (np.asarray(each.seconds.get(name, 0.0)) for each in (one, other))
        assert here == pytest.approx(there, rel=1e-12), name
    assert (float(one.flops), float(one.bytes)) == pytest.approx(
        (float(other.flops), float(other.bytes))
    )


@given(source=TOKENS, more=TOKENS, written=st.integers(0, 500), batch=FEW)
def test_a_longer_text_never_costs_less(source, more, written, batch):
    short, long = (deployed(T5, source_tokens=tokens) for tokens in (source, source + more))
    one, other = (
        decode(short, source + written, batch),
        decode(long, source + more + written, batch),
    )
    assert other.total_s >= one.total_s
    assert other.bytes > one.bytes
    assert prompt(long, source + more).total_s >= prompt(short, source).total_s


@given(tokens=TOKENS, batch=FEW)
def test_a_prompt_without_logits_is_the_encoder_alone(tokens, batch):
    """The decoder runs in no part of it: the pass of the encoder's blocks, by itself, is all there
    is."""
    whole = prompt(deployed(T5), tokens, batch=batch)
    alike(whole, prompt(deployed(T5.encoder), tokens, batch=batch))
    assert "head" not in whole.seconds
    deeper = replace(T5, blocks=tuple((block, 2 * count) for block, count in T5.blocks))
    alike(whole, prompt(deployed(deeper), tokens, batch=batch))


@given(tokens=TOKENS, batch=FEW)
def test_the_first_logits_take_one_token_of_the_decoder(tokens, batch):
    d = deployed(T5)
    first = decode(d, tokens, batch)
    whole, read = prompt(d, tokens, logits="last", batch=batch), prompt(d, tokens, batch=batch)
    assert whole.total_s == pytest.approx(read.total_s + first.total_s)


@given(context=TOKENS, batch=FEW, new=st.integers(1, 9))
def test_an_encoder_costs_nothing_while_its_decoder_writes(context, batch, new):
    shallow = replace(T5, encoder=replace(T5.encoder, blocks=T5.encoder.blocks[-1:]))
    alike(decode(deployed(T5), context, batch, new), decode(deployed(shallow), context, batch, new))


@given(context=st.integers(0, 4000), batch=FEW, new=st.integers(1, 9), fidelity=FIDELITIES)
def test_a_decoder_that_read_nothing_is_a_decoder(context, batch, new, fidelity):
    alone = deployed(T5.without_encoder, fidelity)
    alike(
        decode(deployed(T5, fidelity, source_tokens=0), context, batch, new),
        decode(alone, context, batch, new),
    )
    nothing = deployed(T5, fidelity, source_tokens=0)
    alike(prompt(nothing, new, context, batch=batch), prompt(alone, new, context, batch=batch))


@given(context=TOKENS, part=st.floats(0.0, 1.0), new=st.integers(1, 9))
def test_read_and_written_tokens_are_as_much_to_read(context, part, new):
    """Where it is not known who wrote the cached tokens, neither traffic nor arithmetic depends on
    it."""
    known = decode(deployed(T5, source_tokens=max(round(part * context), 1)), context, new=new)
    unknown = decode(deployed(T5), context, new=new)
    assert float(known.bytes) == pytest.approx(float(unknown.bytes))
    assert float(known.flops) == pytest.approx(float(unknown.flops))


@given(first=TOKENS, second=TOKENS)
def test_a_text_that_is_read_in_parts_takes_as_much_arithmetic(first, second):
    d = deployed(T5)
    parts = prompt(d, first).flops + prompt(d, second, first).flops
    assert float(parts) == pytest.approx(float(prompt(d, first + second).flops))


def test_attention_of_an_encoder_by_hand():
    """Every token sees every other: 4·n²·heads·width products a layer, twice a decoder's but for
    the diagonal."""
    n = 1000
    read = {op.name: op for op in prompt(deployed(T5), n).operations}["attention"]
    assert float(read.work.flops) == 4 * n * n * 16 * 64
    cross = [
        op
        for op in decode(deployed(T5, source_tokens=n), n + 5).operations
        if op.name == "attention"
    ][1]
    assert float(cross.work.flops) == 4 * n * 16 * 64
    assert float(cross.work.bytes) == 2 * 2 * (n + 1) * 16 * 64
    assert float(cross.work.written_bytes) == 0.0


def test_an_input_of_fixed_length_is_read_whatever_the_prompt():
    d = deployed(WHISPER)
    heard = prompt(deployed(WHISPER.encoder), 1500)
    one, four = (prompt(d, tokens) for tokens in (1, 4))
    assert float(four.flops - one.flops) < 0.01 * float(heard.flops) < 0.01 * float(one.flops)
    held = [
        float(kv_bytes(WHISPER, Precision(), batch=1, context=c, page_tokens=1)) for c in (0, 1, 2)
    ]
    assert held[0] == 32 * 2 * 1280 * 2 * 1500
    assert held[2] - held[1] == held[1] - held[0] == 32 * 2 * 1280 * 2
    near, far = (float(decode(d, c).bytes) for c in (1, 101))
    assert far - near == pytest.approx(100 * 32 * 2 * 1280 * 2)


@given(context=TOKENS, batch=FEW)
def test_what_was_read_takes_the_room_of_what_is_written(context, batch):
    held = [
        float(kv_bytes(model, Precision(), batch=batch, context=context))
        for model in (T5, T5.without_encoder)
    ]
    assert held[0] == held[1] > 0.0


def setting(model="t5-xxl", draft="t5-v1.1-small", **names):
    where = DeploymentNames(model=model, device="h100-sxm", engine="none", **names)
    return build_setting(
        DecodingConfiguration(method="speculative-decoding", draft_model=draft, deployment=where)
    )


def test_a_draft_model_with_an_encoder_reads_the_prompt_there():
    found = setting()
    own, with_draft = (
        float(prefill_s(found, prompt_tokens=512.0, drafts=drafts)) for drafts in (False, True)
    )
    draft = deployed(found.drafter.stages[0].architecture, "calibrated")
    whole = pass_cost(draft, batch=1, query_tokens=512, context=0.0, logits="all", prefill=True)
    assert with_draft - own == pytest.approx(float(whole.total_s))


def test_a_prompt_beside_others_adds_its_encoder_and_one_row():
    found = setting()
    alone = float(prompt(found.deployment, 512.0).total_s)
    added = float(mixed_prefill_s(found, prompt_tokens=512.0, decode_rows=8.0, drafts=False))
    assert alone <= added <= 1.05 * alone


def test_the_length_of_a_prompt_is_known_to_its_answer():
    found = setting()
    assert reading(found, 100.4).deployment.source_tokens == 100
    other = setting("llama-3.1-8b", "llama-3.2-1b")
    assert reading(other, 100.0) is other


def test_drafts_pay_on_an_encoder_decoder():
    gain = estimate(
        setting(), geometric(0.75, 5), batch=np.array([1.0, 8.0]), context=128.0
    ).speedup
    assert np.all((gain > 1.5) & (gain < geometric(0.75, 5).tokens_per_step))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"shared_prefix_tokens": 64}, "both ways"),
        ({"host_weights_ratio": 0.5}, "host_weights_ratio.*streamed"),
        ({"host_cache_ratio": 0.5}, "host_cache_ratio.*streamed"),
        ({"tensor_parallel": 3}, "divide the heads"),
        ({"source_tokens": -1}, ">= 0"),
    ],
)
def test_what_an_encoder_excludes_is_refused(changes, rule):
    with pytest.raises(InputError, match=rule):
        deployed(T5, **changes)


def test_plans_and_summaries_are_for_one_stack():
    with pytest.raises(InputError, match="one stack of layers"):
        ParallelPlan(tensor=2, pipeline=2).check(T5)
    text, split = (
        ContextTransform(name="t", kept_ratio=0.5),
        EncoderSplit(name="s", encoder_ratio=0.5),
    )
    with pytest.raises(InputError, match="own encoder"):
        apply(deployed(T5), [text])
    with pytest.raises(InputError, match="reach no encoder"):
        apply(deployed(load_model("llama-3.2-1b")), [text, split])
