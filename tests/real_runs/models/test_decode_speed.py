"""What decode_speed counts, times and prints; its ways to decode give the same logits as each
other."""

from dataclasses import replace

import pytest
import torch

from costmodel.architectures.library import load_model
from hardware_profiles.errors import InputError
from real_runs import decode_speed
from real_runs.decode_speed import DecodeSpeed, decode_speeds, main, own_passes, pass_bytes, report
from real_runs.models.llama import Llama
from real_runs.models.loading.transformers_model import (
    ATTENTIONS,
    transformers_model,
    transformers_passes,
    transformers_texts,
)
from real_runs.models.loading.weights_like import weights_like
from tests.real_runs.random_weights import random_weights


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "qwen3-0.6b", "deepseek-v2-lite", "gemma-3-1b", "gpt-oss-20b"]
)
@pytest.mark.parametrize("batch", [1, 4])
def test_bytes_of_a_pass_follow_from_the_architecture(name, batch):
    architecture = load_model(name)
    model = Llama(weights_like(architecture, device="meta"), device="meta", dtype=torch.bfloat16)
    short, long = (pass_bytes(model, context, batch) for context in (100, 300))
    unwindowed = [
        b for b, _ in architecture.blocks if b.attention.window is None or b.attention.window >= 300
    ]
    if len(unwindowed) == len(architecture.blocks):
        assert long - short == 2 * 200 * batch * architecture.kv_values_per_token
    else:
        assert 0 < long - short < 2 * 200 * batch * architecture.kv_values_per_token
    assert short - 2 * 100 * batch * architecture.kv_values_per_token == model.weight_bytes


def test_the_static_pass_and_the_ordinary_one_give_the_same_logits(tiny_model):
    torch.manual_seed(1)
    eager = own_passes(tiny_model, 20, 3)().logits
    torch.manual_seed(1)
    static = own_passes(tiny_model, 20, 3, static=True)()
    torch.testing.assert_close(static, eager, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_transformers_runs_our_weights(tiny_config, attention, tied):
    weights = random_weights(replace(tiny_config, tied_head=tied), seed=3, scale=0.2)
    theirs, ours = transformers_model(weights, attention, torch.float32), Llama(weights)
    tokens = [5, 9, 2, 44, 13]
    with torch.no_grad():
        expected = theirs(torch.tensor([tokens])).logits
    torch.testing.assert_close(
        ours.forward(tokens, ours.new_cache(5)).logits, expected, atol=1e-4, rtol=1e-3
    )
    made = transformers_passes(theirs, 8)
    assert torch.equal(made(), made())  # the cache is cut back
    assert transformers_texts(theirs, tokens, 4)().shape == (1, 9)
    with pytest.raises(InputError, match="neither head norms"):
        transformers_model(
            random_weights(replace(tiny_config, qk_norm=True)), attention, torch.float32
        )


def test_ways_take_turns_and_disturbed_repeats_are_left_out(monkeypatch):
    order = []
    clock = iter(
        [
            (9.0, 9.0),
            (9.0, 9.0),
            (2.0, 2.0),
            (5.0, 5.0),
            (8.0, 2.1),
            (5.2, 5.1),
            (2.2, 2.2),
            (9.0, 1.0),
        ]
    )
    monkeypatch.setattr(decode_speed, "_timed", lambda call, _: (call(), next(clock))[1])
    calls = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    found = decode_speeds(calls, torch.device("cpu"), bytes_read=20, batch=2, repeats=3)
    assert order == ["a", "b"] * 4
    assert (found["a"].wall_s, found["a"].cpu_s, found["a"].repeats, found["a"].disturbed) == (
        2.1,
        2.1,
        3,
        1,
    )
    assert (found["b"].wall_s, found["b"].disturbed) == (pytest.approx(5.1), 1)
    assert found["a"].tokens_per_s == pytest.approx(2 / 2.1)
    assert found["a"].bytes_per_s == pytest.approx(20 / 2.1)


def test_without_a_calm_repeat_process_time_stands_in_and_the_report_says_so():
    speed = DecodeSpeed(
        name="a", batch=1, pass_bytes=10**9, wall_s=None, cpu_s=0.5, repeats=3, disturbed=3
    )
    assert speed.tokens_per_s == pytest.approx(2.0 * torch.get_num_threads())
    (line,) = report({"a": speed}, 4e9)
    assert "every repeat disturbed" in line
    assert "2.0 tokens/s" in line
    assert "0.50 of a copy's 4.0" in line


def test_command_line(capsys, monkeypatch):
    monkeypatch.setattr(decode_speed, "_COPY_BYTES", 1 << 20)
    tiny = ["--like", "llama-68m", "--layers", "1", "--context", "16", "--repeats", "1"]
    assert main([*tiny, "--batch", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "context 16, batch 2" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == ["eager", "static"]
    assert all("tokens/s" in line for line in lines[2:])
    assert main([*tiny, "--layers", "9"]) == 2
    assert "layers: must lie in 1..2" in capsys.readouterr().err
    assert main([*tiny, "--context", "0"]) == 2
    assert main([*tiny, "--batch", "2", "--transformers"]) == 2
