import json
import runpy
import subprocess
import sys

import pytest

from app.exporters.registry import export, write_export
from app.exporters.transformers import ASSISTANT_FILE, SCRIPT_FILE, TARGET_FILE
from costmodel.configuration import DeploymentNames
from costmodel.method import Stop
from hardware_profiles.errors import InputError


def files_of(choice, **options):
    files = dict(export(choice, "transformers", **options).files)
    code = files.pop(SCRIPT_FILE)
    compile(code, SCRIPT_FILE, "exec")
    return {name: json.loads(text) for name, text in files.items()}, code


def test_the_draft_length_belongs_to_the_assistant_and_is_constant(build):
    files, code = files_of(build("speculative-decoding", draft_tokens=4))
    assert files == {
        ASSISTANT_FILE: {
            "num_assistant_tokens": 4,
            "num_assistant_tokens_schedule": "constant",
            "assistant_confidence_threshold": 0.0,
        }
    }
    assert "assistant_model=assistant" in code


def test_prompt_lookup_belongs_to_the_target(build):
    files, code = files_of(build("n-gram", ngram_max=4))
    assert files == {TARGET_FILE: {"prompt_lookup_num_tokens": 5, "max_matching_ngram_size": 4}}
    assert "assistant" not in code.partition("import sys")[2]


def test_shorter_matches_are_an_approximation(build):
    result = export(build("n-gram", ngram_min=2), "transformers", approximate=True)
    assert json.loads(result.files[TARGET_FILE])["max_matching_ngram_size"] == 3
    assert any(note.startswith("APPROXIMATION") for note in result.notes)


def test_a_target_that_drafts_by_leaving_early_holds_every_key(build):
    files, _ = files_of(build("early-exit", exit_layers=12))
    assert set(files) == {TARGET_FILE}
    assert files[TARGET_FILE]["assistant_early_exit"] == 12
    assert files[TARGET_FILE]["num_assistant_tokens"] == 5


@pytest.mark.parametrize(("engine", "own"), [("transformers", 1), ("llama.cpp", 0)])
def test_a_note_says_what_an_engine_does_with_the_token_that_ends_a_draft(build, engine, own):
    for priced in (0, 1):
        stop = Stop(rule="probability", at=0.3, unlikely_tokens=priced)
        notes = export(build("speculative-decoding", stop=stop), engine).notes
        assert any(f"unlikely={own}" in note for note in notes) == (priced != own)


def test_a_threshold_is_passed_on(build):
    files, _ = files_of(build("speculative-decoding", stop=Stop(rule="probability", at=0.3)))
    assert files[ASSISTANT_FILE]["assistant_confidence_threshold"] == 0.3
    with pytest.raises(InputError, match="confidence"):
        files_of(build("n-gram", stop=Stop(rule="probability", at=0.3)))


@pytest.mark.parametrize(
    ("method", "changes", "key"),
    [
        ("draft_model", {"max_batch": 2}, "max_batch"),
        ("draft_model", {"schedule": ((1, 16, 5),)}, "schedule"),
        ("draft_model", {"tensor_parallel": 2}, "tensor_parallel"),
        ("ngram", {"ngram_min": 2}, "ngram_min"),
        ("eagle3", {}, "method"),
        ("medusa", {}, "method"),
        ("sequoia", {}, "method"),
        ("mtp", {}, "method"),
    ],
)
def test_what_assisted_generation_cannot_do_is_refused(build, method, changes, key):
    with pytest.raises(InputError, match=r"transformers 5\.23\.0") as caught:
        export(build(method, **changes), "transformers")
    assert caught.value.key == key


def test_trees_and_synthetic_acceptance_are_refused(build, binary_tree):
    with pytest.raises(InputError, match="one chain"):
        export(build("speculative-decoding", tree=binary_tree), "transformers", approximate=True)
    with pytest.raises(InputError, match="synthetic"):
        export(
            build("speculative-decoding", acceptance_by_depth=(0.5,) * 5),
            "transformers",
            synthetic=True,
        )


def test_one_request_at_a_time_may_be_said_in_two_ways(build):
    for changes in ({"max_batch": 1}, {"schedule": ((1, 1, 5),)}):
        assert ASSISTANT_FILE in files_of(build("speculative-decoding", **changes))[0]


def test_plain_decoding_serves_any_batch(build):
    files, code = files_of(build("plain-decoding", max_batch=64))
    assert files == {}
    assert "generate(" in code


@pytest.mark.parametrize("name", ["it's", 'a "b"', "x'); raise SystemExit(7); ('", "tri'''ple"])
def test_names_stay_names_inside_the_script(build, name):
    _, code = files_of(build("speculative-decoding", model=name, draft_model=f"d/{name}"))
    bodies = [line for line in code.splitlines() if not line.startswith("#")]
    assert f"target_name = {name!r}" in bodies
    assert f"assistant = AutoModelForCausalLM.from_pretrained({f'd/{name}'!r})" in bodies


@pytest.mark.filterwarnings("default")
def test_transformers_itself_reads_the_files(build, tmp_path):
    transformers = pytest.importorskip("transformers")
    for method in ("draft_model", "ngram", "early_exit"):
        result = export(build(method), "transformers")
        write_export(result, tmp_path / method)
        for name, text in result.files.items():
            if name == SCRIPT_FILE:
                continue
            loaded = transformers.GenerationConfig.from_pretrained(
                (tmp_path / method / name).parent
            )
            loaded.validate(strict=True)
            settings = loaded.to_diff_dict()
            settings.pop("transformers_version", None)
            assert settings == json.loads(text)
            fresh = transformers.GenerationConfig()
            assert fresh.update(**settings) == {}


@pytest.mark.heavy
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("tokens", [2, 5])
def test_transformers_drafts_exactly_the_exported_k(build, monkeypatch, tmp_path, tokens):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from transformers.generation.candidate_generator import AssistedCandidateGenerator

    write_export(
        export(build("speculative-decoding", draft_tokens=tokens), "transformers"), tmp_path
    )
    shape = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    torch.manual_seed(0)
    target, assistant = (transformers.LlamaForCausalLM(shape).eval() for _ in range(2))
    settings = transformers.GenerationConfig.from_pretrained(tmp_path / "assistant").to_diff_dict()
    settings.pop("transformers_version", None)
    assistant.generation_config.update(**settings)
    proposed = []
    draft = AssistedCandidateGenerator.get_candidates

    def recorded(self, input_ids, **kwargs):
        ids, logits = draft(self, input_ids, **kwargs)
        proposed.append(ids.shape[1] - input_ids.shape[1])
        return ids, logits

    monkeypatch.setattr(AssistedCandidateGenerator, "get_candidates", recorded)
    prompt = torch.tensor([[1, 2, 3]])
    target.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=24,
        do_sample=False,
        assistant_model=assistant,
        pad_token_id=0,
        eos_token_id=None,
    )
    assert proposed[0] == tokens
    assert max(proposed) == tokens


@pytest.mark.heavy
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "method", ["n-gram", pytest.param("speculative-decoding", marks=pytest.mark.slow)]
)
def test_the_exported_script_runs_as_it_stands(build, tmp_path, monkeypatch, capsys, method):
    transformers, tokenizers = (
        pytest.importorskip("transformers"),
        pytest.importorskip("tokenizers"),
    )
    letters = {letter: at for at, letter in enumerate("abcdefgh")}
    model = tmp_path / "model"
    shape = transformers.LlamaConfig(
        vocab_size=8,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=7,
        pad_token_id=7,
    )
    transformers.LlamaForCausalLM(shape).save_pretrained(model)
    whole = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token="a"))
    whole.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=whole).save_pretrained(model)
    deployment = DeploymentNames(model=str(model), dtype="fp32")
    draft = {"draft_model": str(model)} if method == "speculative-decoding" else {}
    write_export(
        export(build(method, deployment=deployment, **draft), "transformers"), tmp_path / "out"
    )
    script = tmp_path / "out" / SCRIPT_FILE
    if method == "speculative-decoding":
        run = subprocess.run(
            [sys.executable, script, "abcabc"], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        printed = run.stdout
    else:  # in this process, which imported torch and transformers already
        monkeypatch.setattr(sys, "argv", [str(script), "abcabc"])
        runpy.run_path(str(script), run_name="__main__")
        printed = capsys.readouterr().out
    assert len(printed.split()) > 6
