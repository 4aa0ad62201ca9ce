"""A method alone is what is known of it, at every door, as `optimize` takes it."""

import pytest

import rooftree
from hardware_profiles.errors import InputError
from tests.agreement.doors import Relation, ask
from tests.every import every

pytestmark = pytest.mark.heavy

ASKED = [
    ("llama-3.1-8b", "eagle-3", "h100-sxm", "vllm", 3),
    ("llama-3.1-8b", "speculative-decoding", "a100-80gb", "sglang", 4),
    ("llama-3.3-70b", "eagle-3", "mi300x", "vllm", 5),
    ("deepseek-v3", "mtp", "gb300", "tensorrt-llm", 2),
    ("qwen3-32b", "eagle-3", "h200-sxm", "sglang", 6),
    ("qwen3-8b", "n-gram", "l40s", "vllm", 5),
]
"""Model, method, device, engine and K."""
PLACED = {"gb300": 4, "h200-sxm": 2, "mi300x": 2}
PRICED = (
    "tokens_per_step",
    "step_s",
    "tpot_s",
    "tokens_per_s",
    "speedup",
    "tokens_per_step_interval",
    "speedup_interval",
)
LOAD = ("--rate", "2", "--prompt-tokens", "512", "--output-tokens", "128")


def words(model, device, engine, length, *more):
    tp = str(PLACED.get(device, 1))
    place = ("--model", model, "--device", device, "--engine", engine, "--tp", tp)
    return (*place, "--draft-tokens", str(length), *more)


def test_predict_says_what_optimize_says_of_a_method_alone():
    relation = Relation("predict --method is the row of optimize --method")
    for model, method, device, engine, length in ASKED:
        for batch in (1, 24):
            question = words(
                model, device, engine, length, "--batch", str(batch), "--method", method
            )
            predicted, chosen = ask(("predict", *question)), ask(("optimize", *question))
            rows = [
                row
                for row in [*chosen.body["choices"], *chosen.body["alternatives"]]
                if row["draft_tokens"] == length
            ]
            lines = (predicted.line, chosen.line)
            (row,) = predicted.body["predictions"]
            assert len(rows) == 1, lines
            relation.rows(PRICED, row, rows[0], lines)
            known = rows[0]["provenance"]["acceptance"]
            relation.rows(known, predicted.body["acceptance"], known, lines)
    relation.holds(least=2 * 2 * len(ASKED))


@every("model,method,device,engine,length", ASKED)
def test_a_method_alone_is_that_drafter_at_every_verb_that_needs_acceptance(
    model, method, device, engine, length
):
    place = words(model, device, engine, length)
    for verb, more in (
        ("predict", ("--batch", "1,24")),
        ("capacity", LOAD),
        ("simulate", (*LOAD, "--count", "8")),
    ):
        alone = ask((verb, *place, *more, "--method", method))
        named = ask((verb, *place, *more, "--drafter", method))
        assert alone.code == named.code == 0, (alone.line, alone.message)
        asked = [said.body.pop("inputs") for said in map(_copied, (alone, named))]
        assert {**alone.body, "inputs": None} == {**named.body, "inputs": None}
        if verb == "simulate":
            assert asked[0]["speculation"] == asked[1]["speculation"]
            assert any(
                note.startswith(("acceptance published", "acceptance borrowed"))
                for note in alone.body["notes"]
            )


def _copied(said):
    return said._replace(body=dict(said.body))


def test_python_takes_a_method_alone_as_the_command_line_does():
    stated = {"model": "llama-3.1-8b", "device": "h100-sxm", "draft_tokens": [3], "batch": [8]}
    alone = rooftree.predict(**stated, method="eagle-3")
    line = ask(("predict", *words("llama-3.1-8b", "h100-sxm", "vllm", 3, "--batch", "8")))
    assert line.code == 2  # without a method nothing says what drafts
    line = ask(
        (
            "predict",
            *words("llama-3.1-8b", "h100-sxm", "vllm", 3, "--batch", "8", "--method", "eagle-3"),
        )
    )
    assert alone["predictions"][0]["speedup"] == line.body["predictions"][0]["speedup"]


def test_a_method_of_which_no_chains_were_published_says_what_to_write():
    for verb, more in (("predict", ()), ("capacity", LOAD), ("simulate", (*LOAD, "--count", "8"))):
        said = ask(
            (verb, *words("llama-3.1-8b", "h100-sxm", "vllm", 3, *more), "--method", "hydra")
        )
        assert said.code == 2
        assert "state it by --acceptance, --tokens-per-step or --trace" in said.message
    with pytest.raises(InputError, match="nothing says what is accepted"):
        rooftree.predict(model="llama-3.1-8b", method="hydra")


def test_a_scenario_that_states_acceptance_keeps_it_beside_a_method(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text("speculation: {acceptance: [0.9, 0.8, 0.7], draft_tokens: 3}\n")
    question = ("--model", "llama-3.1-8b", *LOAD, "--count", "8", "--scenario", str(file))
    kept = ask(("simulate", *question, "--method", "eagle-3"))
    assert kept.body["inputs"]["speculation"]["acceptance"] == [0.9, 0.8, 0.7]
    named = ask(("simulate", *question, "--drafter", "eagle-3"))
    assert named.body["inputs"]["speculation"]["acceptance"][0] == pytest.approx(0.74)


def test_a_named_draft_model_drafts_in_a_simulation_of_a_published_figure():
    place = words("llama-3.3-70b", "mi300x", "vllm", 3, "--draft", "llama-3.2-3b")
    for how in ("--method", "--drafter"):
        said = ask(("simulate", *place, *LOAD, "--count", "8", how, "speculative-decoding"))
        assert said.body["inputs"]["speculation"]["draft"] == "llama-3.2-3b"
        assert any("borrowed from" in note for note in said.body["notes"])


def test_capacity_takes_what_was_published_on_each_of_several_models():
    models = ("llama-3.1-8b", "qwen3-8b")
    asked = ("--draft-tokens", "3", *LOAD, "--method", "eagle-3")
    together = ask(("capacity", "--model", ",".join(models), *asked)).body["plans"]
    alone = [
        row for model in models for row in ask(("capacity", "--model", model, *asked)).body["plans"]
    ]
    assert [row["tpot_s"] for row in together] == [row["tpot_s"] for row in alone]
