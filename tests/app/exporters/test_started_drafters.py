"""Every file starts the drafter that was costed, under the limits that were stated, or is refused
with the reason."""

import json
import re
import shlex

import pytest
import yaml

import rooftree as front
from app.exporters.checkpoints import DRAFT_PLACEHOLDER
from app.exporters.registry import ENGINES, export
from costmodel.architectures.library import load_model, model_names
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.configuration.file import read_configuration
from costmodel.optimizers.drafters.default_drafters import known_drafters
from costmodel.optimizers.drafters.named_drafters import published_source
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import InputError

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
HEAD = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
LARGE = ("--model", "deepseek-v3", "--device", "h200-sxm", "--tp", "8")
OWN = ("--draft-passes", "4", "--draft-bytes", "3.5e8")
NAMES = {
    "speculative-decoding": {
        "draft_model",
        "STANDALONE",
        "Draft_Target",
        "draft-simple",
        "assistant",
    },
    "eagle-3": {"eagle3", "EAGLE3", "Eagle3", "draft-eagle3"},
    "n-gram": {"ngram", "NGRAM", "NGram", "SA", "ngram-simple", "prompt_lookup"},
    "mtp": {"mtp", "NEXTN", "MTP", "draft-mtp"},
}
KINDS = {
    # options, the method, and what it drafts with: a checkpoint, the mark for one, or nothing of
    # its own
    "draft model": (
        ("--drafter", "speculative-decoding:0.9", "--draft", "llama-3.2-3b"),
        "speculative-decoding",
        "meta-llama/Llama-3.2-3B-Instruct",
    ),
    "published draft model": (
        ("--drafter", "speculative-decoding"),
        "speculative-decoding",
        "meta-llama/Llama-3.2-1B-Instruct",
    ),
    "published head": (("--drafter", "eagle-3"), "eagle-3", HEAD),
    "named head": (("--drafter", "eagle-3:0.8", "--draft", "org/a-head"), "eagle-3", "org/a-head"),
    "own head": (("--drafter", "eagle-3:0.8", *OWN), "eagle-3", DRAFT_PLACEHOLDER),
    "own head by name": (
        ("--drafter", "eagle-3:0.8", *OWN, "--draft", "org/a-head"),
        "eagle-3",
        "org/a-head",
    ),
    "own draft model": (
        ("--acceptance", "0.8", *OWN, "--drafter", "n-gram:0"),
        "speculative-decoding",
        DRAFT_PLACEHOLDER,
    ),
    "n-gram": (("--drafter", "n-gram:0.8"), "n-gram", None),
    "mtp": ((*LARGE, "--drafter", "mtp:0.8"), "mtp", None),
    "a head for mtp": (
        (*LARGE, "--drafter", "mtp:0.8", "--draft", "org/a-head"),
        "mtp",
        "org/a-head",
    ),
    "medusa": (("--drafter", "medusa:0.8"), "medusa", DRAFT_PLACEHOLDER),
}


def started(engine, files):
    """What an engine's files draft with: its name of the way, and the checkpoint; None where
    nothing is drafted."""
    text = "".join(files.values())
    if engine == "vllm":
        config = json.loads(files.get("vllm-speculative-config.json", "null"))
        return config and (config["method"], config.get("model"))
    if engine == "tensorrt-llm":
        config = (yaml.safe_load(files.get("tensorrt-llm-config.yaml", "")) or {}).get(
            "speculative_config"
        )
        return config and (config["decoding_type"], config.get("speculative_model"))
    if engine == "transformers":
        named = re.search(
            r"^assistant = AutoModelForCausalLM.from_pretrained\('([^']+)'", text, re.MULTILINE
        )
        lookup = "prompt_lookup_num_tokens" in text
        return ("assistant", named[1]) if named else ("prompt_lookup", None) if lookup else None
    words = shlex.split(
        next(text for name, text in files.items() if name.endswith(".sh")), comments=True
    )
    way = "--speculative-algorithm" if engine == "sglang" else "--spec-type"
    flags = ("--speculative-draft-model-path", "--spec-draft-model", "--spec-draft-hf")
    if way not in words:
        return None
    checkpoint = next((words[words.index(flag) + 1] for flag in flags if flag in words), None)
    return words[words.index(way) + 1], checkpoint


def read_files(folder):
    return {path.name: path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def is_as_asked(engine, method, checkpoint, files):
    """Whether files start a method with a checkpoint and no other one; llama.cpp loads GGUF files
    made of it."""
    drafted = started(engine, files)
    if drafted is None:
        return False
    way, loaded = drafted
    text = "".join(files.values())
    assert way in NAMES.get(method, {method}), (engine, drafted)
    if engine == "llama.cpp" and checkpoint is not None:
        assert loaded == f"{DRAFT_PLACEHOLDER}.gguf"
        assert checkpoint == DRAFT_PLACEHOLDER or f"makes it from {checkpoint}" in text
    else:
        assert loaded == checkpoint, (engine, drafted)
    if checkpoint == DRAFT_PLACEHOLDER:
        assert re.search(rf"^# note: replace {DRAFT_PLACEHOLDER}", text, re.MULTILINE)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_an_answer_start_what_competes_or_say_why_not(rooftree, tmp_path, kind):
    words, method, checkpoint = KINDS[kind]
    words = words if "--model" in words else ("--model", "llama-3.1-8b", *words)
    question = (
        "optimize",
        *words,
        "--batch",
        "1",
        "--draft-tokens",
        "3",
        "--seed",
        "1",
        "--engines",
        "all",
        "--out",
        tmp_path,
    )
    done = rooftree(*question)
    assert done.code == 0, done.err
    screen, written = " ".join(done.out.split()), 0
    for engine in ENGINES:
        files = read_files(tmp_path / engine)
        if files and is_as_asked(engine, method, checkpoint, files):
            written += 1
        else:  # plain decoding, or nothing, and why
            assert re.search(
                rf"{re.escape(engine)}[^/]*?(nothing to load|plain decoding).*?{method}: ", screen
            ), engine
            assert checkpoint is None or checkpoint not in "".join(files.values())
    assert written >= (0 if kind == "medusa" else 2)


@pytest.mark.parametrize("kind", ["draft model", "own head", "a head for mtp"])
def test_the_identity_travels_with_the_configuration_to_every_door(rooftree, tmp_path, kind):
    words, method, checkpoint = KINDS[kind]
    words = words if "--model" in words else ("--model", "llama-3.1-8b", *words)
    pairs = [word.removeprefix("--").replace("-", "_") for word in words[::2]]
    options = dict(zip(pairs, words[1::2], strict=True))
    answer = front.optimize(**options, batch=1, draft_tokens=3, engines="all")
    folder = answer.export(tmp_path / "python")
    chosen = read_configuration(folder / "recommendation.json")
    assert (chosen.own_drafter, chosen.draft_model) == (
        "own-drafter" if kind == "own head" else None,
        None if checkpoint == DRAFT_PLACEHOLDER else options["draft"],
    )
    assert DecodingConfiguration.from_json(chosen.to_json()) == chosen
    for engine in ("vllm", "sglang", "tensorrt-llm"):
        again = tmp_path / "again" / engine
        assert (
            rooftree(
                "export", engine, "--config", folder / "recommendation.json", "--out", again
            ).code
            == 0
        )
        assert is_as_asked(engine, method, checkpoint, read_files(again))
        assert started(engine, read_files(again)) == started(engine, read_files(folder / engine))


def test_a_draft_model_is_never_the_head_of_another_drafter(rooftree, tmp_path):
    """EAGLE-3 wins, and its files name its own head, whatever draft model competes beside it."""
    question = (
        "optimize",
        "--model",
        "llama-3.1-8b",
        "--draft",
        "llama-3.2-1b",
        "--batch",
        "1,8",
        "--engines",
        "all",
        "--out",
        tmp_path,
    )
    answer = rooftree(*question, "--json").answer
    assert answer["choices"][0]["method"] == "eagle-3" and "llama-3.2-1b" in [
        d["name"] for d in answer["drafters"]
    ]
    for engine in ("vllm", "sglang", "llama.cpp", "tensorrt-llm"):
        assert is_as_asked(engine, "eagle-3", HEAD, read_files(tmp_path / engine))
    for engine in ("vllm", "sglang", "llama.cpp", "tensorrt-llm"):
        refused = rooftree(
            "export",
            engine,
            "--model",
            LLAMA,
            "--method",
            "eagle-3",
            "--draft-tokens",
            "3",
            "--draft",
            "llama-3.2-1b",
            "--out",
            tmp_path / "refused",
        )
        assert (
            refused.code == 2
            and "whole model" in refused.err
            and not (tmp_path / "refused").exists()
        )
    assert (
        "whole model"
        in rooftree(
            "predict", "--model", LLAMA, "--drafter", "eagle-3", "--draft", "llama-3.2-1b"
        ).err
    )
    nobody = rooftree(
        "optimize", *LARGE, "--draft", "llama-3.2-1b", "--batch", "1", "--out", tmp_path / "nobody"
    )
    assert nobody.code == 2 and "none drafts with one" in nobody.err


def test_another_draft_model_competes_under_its_name_and_borrows_the_figure():
    question = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.1-8b"), draft_model="llama-3.2-3b"
    )
    published = published_source("speculative-decoding", "llama-3.1-8b")
    other = recommend(question, [published], batches=[1], draft_tokens=[3])
    own = recommend(
        DecodingConfiguration(deployment=question.deployment),
        [published],
        batches=[1],
        draft_tokens=[3],
    )
    assert (own.names, other.names) == (["llama-3.2-1b"], ["llama-3.2-3b"])
    assert not own.sources[0].borrowed and other.sources[0].borrowed
    assert other.sources[0].label.endswith("borrowed from llama-3.2-1b")
    assert (
        other.contenders[0].candidates[1].tokens_per_step
        == own.contenders[0].candidates[1].tokens_per_step
    )


def test_a_described_drafter_has_a_name_and_changes_no_published_one(rooftree, tmp_path):
    question = ("optimize", "--model", "llama-3.1-8b", "--batch", "1", "--out", tmp_path, "--json")
    usual = rooftree(*question).answer
    own = (*question, *OWN, "--acceptance", "0.8", "--method", "eagle-3")
    for name, words in (("own-drafter", own), ("ours-v2", (*own, "--draft-name", "ours-v2"))):
        beside = rooftree(*words).answer
        assert [d["name"] for d in beside["drafters"]] == [
            name,
            *(d["name"] for d in usual["drafters"]),
        ]
        rows = {
            row["drafter"]: row
            for row in [*beside["choices"], *beside["alternatives"]]
            if row["topology"] != "off"
        }
        for row in [*usual["choices"], *usual["alternatives"]]:
            if row["topology"] != "off":
                same = rows[row["drafter"]]
                assert (same["tokens_per_s"], same["draft_tokens"]) == (
                    row["tokens_per_s"],
                    row["draft_tokens"],
                )
                assert same["configuration"] == row["configuration"]
        assert rows[name]["configuration"]["draft_bytes"] == 3.5e8


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("optimize",), "nothing says what is accepted of own-drafter"),
        (("optimize", "--drafter", "eagle-3"), "eagle-3's acceptance was published of another one"),
        (("predict", "--drafter", "eagle-3"), "eagle-3's acceptance was published of another one"),
        (
            ("breakeven", "--drafter", "eagle-3"),
            "eagle-3's acceptance was published of another one",
        ),
        (
            (
                "capacity",
                "--rate",
                "1",
                "--prompt",
                "100",
                "--output",
                "100",
                "--drafter",
                "eagle-3",
            ),
            "of another one",
        ),
        (("predict", "--acceptance", "0.8", "--draft-name", "eagle-3"), "is a published method"),
        (
            ("optimize", "--acceptance", "0.8", "--draft-name", "llama-3.2-1b"),
            "name of another drafter",
        ),
    ],
)
def test_a_published_figure_is_never_that_of_a_described_drafter(rooftree, words, reason):
    verb, *rest = words
    done = rooftree(verb, "--model", "llama-3.1-8b", *OWN, *rest)
    assert done.code == 2 and reason in done.err


def test_simulations_take_a_described_drafter_by_its_own_acceptance_alone(rooftree):
    question = (
        "simulate",
        "--model",
        "llama-3.1-8b",
        "--users",
        "1",
        "--count",
        "2",
        "--prompt-tokens",
        "64",
        "--output-tokens",
        "8",
        "--draft-tokens",
        "3",
        "--set",
        "speculation.draft_passes=1",
        "--set",
        "speculation.draft_bytes=3.5e8",
    )
    assert "published of another one" in rooftree(*question, "--drafter", "eagle-3").err
    named = rooftree(
        *question, "--drafter", "eagle-3:0.8", "--set", "speculation.draft_name=ours-v2", "--json"
    )
    assert named.code == 0 and named.answer["inputs"]["speculation"]["draft_name"] == "ours-v2"
    assert (
        rooftree(
            *question[:-4], "--set", "speculation.draft_name=ours-v2", "--drafter", "eagle-3:0.8"
        ).code
        == 2
    )


def test_prediction_layers_compete_where_a_checkpoint_holds_them():
    """DeepSeek-V3 ships a layer; Kimi-K2 states none, and nobody published those that MiniMax-M2's
    config states."""
    for name in model_names():
        methods = [source.method for source in known_drafters(name)]
        assert "mtp" not in methods or load_model(name).mtp_layers, name
    holds = {name for name in model_names() if load_model(name).mtp_layers}
    assert {"deepseek-v3", "glm-4.5-air", "qwen3-next-80b-a3b", "qwen3.5-27b"} <= holds
    assert not {"kimi-k2", "kimi-k2.5", "minimax-m2", "llama-3.1-8b"} & holds


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_a_target_without_prediction_layers_gets_no_file_that_drafts_with_them(
    rooftree, tmp_path, engine
):
    question = (
        "export",
        engine,
        "--model",
        "kimi-k2",
        "--method",
        "mtp",
        "--draft-tokens",
        "1",
        "--out",
        tmp_path,
    )
    refused = rooftree(*question)
    assert refused.code == 2 and "the checkpoint of kimi-k2 holds no layers" in refused.err
    brought = rooftree(*question, "--draft", "org/k2-mtp")
    assert brought.code == 0 and is_as_asked(engine, "mtp", "org/k2-mtp", read_files(tmp_path))


def test_asked_for_by_name_it_is_a_head_of_the_reader(rooftree, tmp_path):
    target = ("--model", "kimi-k2", "--dtype", "fp8", "--device", "h200-sxm", "--tp", "16")
    question = ("optimize", *target, "--batch", "1", "--drafter", "mtp", "--out", tmp_path)
    screen = " ".join(rooftree(*question).out.split())
    assert "mtp: a head of yours, as the checkpoint of kimi-k2 holds none" in screen
    assert not list(tmp_path.rglob("*.sh"))
    named = rooftree(*question, "--draft", "org/k2-mtp")
    assert "mtp: org/k2-mtp, as the checkpoint of kimi-k2 holds none" in " ".join(named.out.split())
    assert is_as_asked("vllm", "mtp", "org/k2-mtp", read_files(tmp_path / "vllm"))


@pytest.mark.parametrize("batches", ["1,8", "8", "1,4,32"])
def test_the_largest_batch_that_was_compared_is_no_limit(rooftree, tmp_path, batches):
    question = (
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle-3",
        "--batch",
        batches,
        "--draft-tokens",
        "2,4",
        "--engines",
        "all",
    )
    answer = rooftree("optimize", *question, "--out", tmp_path, "--json").answer
    rows = [*answer["choices"], *answer["schedules"]]
    assert all(row["configuration"]["max_batch"] is None for row in rows)
    for engine, flag in (
        ("vllm", "--max-num-seqs"),
        ("sglang", "--max-running-requests"),
        ("tensorrt-llm", "--max_batch_size"),
    ):
        (script,) = (
            text for name, text in read_files(tmp_path / engine).items() if name.endswith(".sh")
        )
        assert flag not in shlex.split(script, comments=True)
        stated = rooftree(
            "export",
            engine,
            "--config",
            tmp_path / "recommendation.json",
            "--max-batch",
            "24",
            "--out",
            tmp_path / "stated",
            "--json",
        ).answer["command"]
        assert f"{flag} 24" in stated
        alone = ("--model", LLAMA, "--method", "eagle-3", "--draft-tokens", "3", "--batch", "8")
        none = rooftree("export", engine, *alone, "--out", tmp_path / "stated", "--json").answer[
            "command"
        ]
        assert flag not in none
    largest = max(batches.split(","), key=int)
    (script,) = read_files(tmp_path / "llama.cpp").values()
    assert (
        f"--parallel {largest} \\" in script
        and f"note: --parallel {largest} is the largest batch" in script
    )


def test_what_a_file_would_leave_out_is_refused(build):
    """A plan with transforms or weights in host memory is not the plan that an engine starts
    without them."""
    for changes, key in (
        ({"transforms": ("wanda-2-4",)}, "deployment.transforms"),
        ({"host_weights_ratio": 0.5}, "deployment.host_weights_ratio"),
    ):
        for engine in ENGINES:
            where = DeploymentNames(model=LLAMA, **changes)
            with pytest.raises(InputError, match=engine) as refused:
                export(build("n-gram", deployment=where, ngram_max=1), engine)
            assert refused.value.key == key


def test_adapters_have_their_slots_in_vllm_and_are_refused_elsewhere(build):
    where = DeploymentNames(model=LLAMA, max_loras=8, max_lora_rank=32)
    chosen = build("n-gram", deployment=where, ngram_max=1)
    written = export(chosen, "vllm")
    assert "--enable-lora --max-loras 8 --max-lora-rank 32" in written.command
    with pytest.raises(InputError, match="adapters") as refused:
        export(chosen, "sglang")
    assert refused.value.key == "deployment.max_loras"


def test_a_stop_rule_with_bounds_of_its_own_is_refused(build):
    from costmodel.method import Stop

    for bounds, key in (
        ({"least_tokens": 2}, "stop.least_tokens"),
        ({"most_tokens": 3}, "stop.most_tokens"),
    ):
        stop = Stop(rule="probability", at=0.6, **bounds)
        for engine in ("llama.cpp", "transformers"):
            with pytest.raises(InputError, match="after any token") as refused:
                export(build("speculative-decoding", stop=stop), engine)
            assert refused.value.key == key
    assert (
        "--spec-draft-p-min 0.6"
        in export(build("eagle-3", stop=Stop(rule="probability", at=0.6)), "llama.cpp").command
    )


def test_a_budget_of_query_tokens_is_written_for_every_scheduler(build):
    for engine, flag in (
        ("vllm", "--max-num-batched-tokens"),
        ("sglang", "--chunked-prefill-size"),
        ("tensorrt-llm", "--max_num_tokens"),
        ("llama.cpp", "--batch-size"),
    ):
        assert f"{flag} 1024" in export(build(token_budget=1024), engine).command
