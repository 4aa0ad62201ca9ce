"""Questions that cannot be meant: refused in one line that names the key, without a warning of
numpy's on the way."""

import pytest

from app.cli.main import main

SIMULATE = (
    "simulate --model llama-3.1-8b --count 5 --rate 5 --prompt-tokens 50 --output-tokens 5 --quiet"
)


@pytest.mark.parametrize("key", ["replicas", "disaggregation.prefill_replicas"])
@pytest.mark.parametrize("count", ["0", "-1", "4097", "1000000000", "1e30"])
def test_replicas_are_bounded(capsys, key, count):
    assert main([*SIMULATE.split(), "--set", f"{key}={count}"]) == 2
    told = capsys.readouterr().err
    assert (
        len(told.splitlines()) == 1 and key.split(".")[-1] in told and count.rstrip("0e3") in told
    )


@pytest.mark.parametrize(
    "content", ["TIMESTAMP,ContextTokens,GeneratedTokens\n", "[]", "{}", "", "\n\n"]
)
def test_requests_without_a_request_are_refused(capsys, tmp_path, content):
    file = tmp_path / "requests.csv"
    file.write_text(content)
    assert main(["simulate", "--model", "llama-3.1-8b", "--requests", str(file), "--quiet"]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and str(file) in told


@pytest.mark.parametrize(
    "words",
    [
        "capacity --model llama-3.1-8b --rate 1e15 --prompt 1024 --output 256 --slo-tpot 30",
        "capacity --model llama-3.1-8b --rate 1e-15 --prompt 1 --output 1 --slo-tpot 1e9",
        (
            "predict --model llama-3.1-8b --drafter eagle-3:1,1,1 --batch 1,4096 --context 1"
            " --draft-tokens 0,3"
        ),
        "predict --model llama-3.1-8b --drafter n-gram:0 --batch 1 --draft-tokens 1,1024",
        "breakeven --model llama-3.1-8b --method eagle-3 --batch 1,65536",
    ],
)
def test_numbers_at_their_ends_draw_no_warning(capsys, words):
    """A warning is an error in this suite, and would end in a traceback."""
    assert main([*words.split(), "--quiet"]) in (0, 2, 3)
    assert "Warning" not in capsys.readouterr().err
