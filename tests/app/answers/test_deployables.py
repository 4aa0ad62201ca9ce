"""Every engine gets the fastest thing that it can express, and the answer says why where there is
none."""

import dataclasses
import json

import pytest

from app.answers.deployables import deployables, engines_to_write, write_all
from app.exporters.checkpoints import DRAFT_PLACEHOLDER
from app.exporters.registry import ENGINES
from app.exporters.transformers import exit_layers
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import UnknownNameError
from traces.kinds.tree import Tree
from traces.storage.acceptance_file import read_acceptance, write_acceptance


def search(*paths, model="", device="l4", engine="none", **drafter):
    where = DeploymentNames(model=model, device=device, engine=engine)
    return recommend(
        DecodingConfiguration(**drafter, deployment=where),
        list(paths),
        batches=[1, 16, 256],
        contexts=[128],
        draft_tokens=[1, 3],
        tree_sizes=[8],
    )


@pytest.fixture(scope="module")
def lookup(files):
    return search(files.lookup)


@pytest.fixture(scope="module")
def recorded_as(files, tmp_path_factory):
    """The ranks again, under another method's name."""

    def write(method):
        trace = read_acceptance(files.ranks)
        path = tmp_path_factory.mktemp("as") / f"{method}.parquet"
        about = dataclasses.replace(trace.provenance, method=method)
        write_acceptance(dataclasses.replace(trace, provenance=about), path)
        return path

    return write


@pytest.mark.parametrize("batches", [(1, 8, 64), (64, 128, 256)])
def test_a_schedule_states_what_its_own_draft_does_at_the_batch_that_it_names(batches):
    where = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")
    source = drafter_source("eagle-3", model="llama-3.1-8b")
    found = recommend(DecodingConfiguration(deployment=where), [source], batches=batches)
    scheduled = found.scheduled(found.winners[0])
    assert scheduled is not None
    (alone,) = recommend(
        DecodingConfiguration(deployment=where),
        [source],
        batches=[scheduled.provenance["batch"]],
        draft_tokens=[scheduled.draft_tokens_at(scheduled.provenance["batch"])],
    ).winners
    assert scheduled.provenance["batch"] == batches[0]
    assert scheduled.provenance["tokens_per_step"] == round(alone.acceptance.tokens_per_step, 3)
    assert scheduled.provenance["speedup"] == round(float(alone.result.speedup), 3)


@pytest.mark.parametrize(("model", "batch"), [("llama-3.1-8b", 8), ("llama-3.3-70b", 32)])
def test_one_batch_gets_the_draft_that_was_found_there(model, batch):
    where = DeploymentNames(model=model, device="h100-sxm", engine="vllm", tensor_parallel=4)
    answer = recommend(
        DecodingConfiguration(deployment=where), [drafter_source("n-gram:0.4")], batches=[batch]
    )
    (best,) = answer.winners
    (schedule,) = answer.optimum.schedules
    assert schedule.configuration.draft_tokens != best.acceptance.draft_tokens
    (vllm,) = deployables(answer, context=best.context, engines=["vllm"])
    config = json.loads(vllm.result.files["vllm-speculative-config.json"])
    assert config["num_speculative_tokens"] == best.acceptance.draft_tokens
    assert "num_speculative_tokens_per_batch_size" not in config


def test_one_entry_per_engine_with_files_or_a_reason(lookup):
    entries = deployables(lookup, context=128)
    assert [entry.engine for entry in entries] == list(ENGINES)
    for entry in entries:
        assert (entry.result is not None) == bool(entry.content)
        assert entry.result is not None or entry.reason


@pytest.mark.parametrize(
    ("engines", "priced", "written"),
    [
        ("", "sglang", ("sglang",)),
        ("", "trtllm", ("tensorrt-llm",)),
        ("", "none", ENGINES),  # passes alone: nothing is written for them
        ("all", "vllm", ENGINES),
        ("vllm,sglang", "llama.cpp", ("sglang", "vllm")),
    ],
)
def test_files_are_written_for_the_engine_that_is_priced_or_those_that_are_named(
    engines, priced, written
):
    assert engines_to_write(engines, priced) == written


def test_an_engine_that_nothing_is_written_for_is_refused():
    with pytest.raises(UnknownNameError, match="atom"):
        engines_to_write("vllm,atom", "vllm")


def test_a_screen_shows_one_engine_and_how_to_have_the_others(rooftree, tmp_path):
    one = rooftree("optimize", "--model", "llama-3.1-8b", "--batch", "1", "--out", tmp_path / "one")
    assert "--engines all" in one.out
    assert {p.parent.name for p in (tmp_path / "one").rglob("*.sh")} == {"vllm"}
    words = ("--engines", "all", "--out", tmp_path / "all")
    every = rooftree("optimize", "--model", "llama-3.1-8b", "--batch", "1", *words)
    assert "--engines" not in every.out and "sglang" in every.out


def test_vllm_gets_the_schedule_that_was_found(lookup):
    (found,) = lookup.optimum.schedules
    assert len(found.schedule.ranges) > 1
    (vllm,) = (entry for entry in deployables(lookup, context=128) if entry.engine == "vllm")
    config = json.loads(vllm.result.files["vllm-speculative-config.json"])
    assert config["num_speculative_tokens"] == max(k for _, _, k in found.schedule.ranges)
    assert [list(entry)[-1] for entry in config["num_speculative_tokens_per_batch_size"]] == [
        k for _, _, k in found.schedule.ranges
    ]


@pytest.mark.parametrize("contexts", [[128], [128, 512]])
def test_files_of_several_contexts_say_which_one_they_are_of(contexts):
    where = DeploymentNames(model="qwen3-8b", device="h100-sxm", engine="vllm")
    answer = recommend(
        DecodingConfiguration(deployment=where),
        [drafter_source("eagle-3:0.7")],
        batches=[1, 64],
        contexts=contexts,
    )
    scripts = [
        text
        for entry in deployables(answer, context=128)
        if entry.result
        for name, text in entry.result.files.items()
        if name.endswith(".sh")
    ]
    assert len(scripts) >= 3
    several = "# context: chosen at 128 tokens alone, of the 128, 512 that were asked about\n"
    assert all((several in text) == (len(contexts) > 1) for text in scripts)


def test_write_all_lists_what_lies_there(lookup, tmp_path):
    entries = deployables(lookup, context=128)
    written = write_all(entries, tmp_path)
    there = sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())
    assert sorted(path for paths in written.values() for path in paths) == there
    assert set(written) == {entry.engine for entry in entries if entry.result is not None}


def test_an_engine_without_trees_or_schedules_gets_the_best_chain_and_says_so(recorded_as):
    answer = search(recorded_as("eagle-3"), draft_model="heads/of-mine")
    assert (
        answer.winners[0].topology == "tree"
        and len(answer.optimum.schedules[0].schedule.ranges) > 1
    )
    entries = {entry.engine: entry for entry in deployables(answer, context=128)}
    assert "by batch" in entries["vllm"].content and not entries["vllm"].reason
    one_chain = entries["llama.cpp"]
    assert one_chain.content == "eagle-3, chain of 3 draft tokens"
    assert "one draft length" in one_chain.reason and "one chain" in one_chain.reason
    for entry in entries.values():
        for text in entry.result.files.values() if entry.result else ():
            assert DRAFT_PLACEHOLDER not in text or (
                entry.engine == "llama.cpp" and "from heads/of-mine" in text
            )
    assert "heads/of-mine" in "".join(entries["vllm"].result.files.values())


@pytest.mark.parametrize("layers", [2, 4])
def test_an_early_exit_is_where_it_was_priced(files, layers):
    answer = search(files.ranks, exit_layers=layers)
    assert answer.winners[0].topology != "off"
    entries = {entry.engine: entry for entry in deployables(answer, context=128)}
    config = json.loads(entries["transformers"].result.files["target/generation_config.json"])
    assert config["assistant_early_exit"] == layers


def test_what_no_engine_runs_is_refused_by_each_with_its_reason(recorded_as):
    answer = search(recorded_as("medusa"), draft_model="heads/of-mine")
    assert answer.winners[0].topology == "tree"
    for entry in deployables(answer, context=128):
        assert entry.result is None and not entry.content and entry.reason.startswith("medusa: ")


def test_a_missing_draft_is_marked_and_not_invented(recorded_as):
    answer = search(recorded_as("eagle-3"))
    (vllm,) = (entry for entry in deployables(answer, context=128) if entry.engine == "vllm")
    assert DRAFT_PLACEHOLDER in "".join(vllm.result.files.values())


def test_where_no_draft_pays_plain_decoding_is_written(files):
    answer = search(
        files.lookup,
        device="h100-sxm",
        engine="none",
        model="qwen3-0.6b",
        draft_passes=8,
        draft_bytes=1e10,
    )
    assert {choice.topology for choice in answer.winners} == {"off"}
    for entry in deployables(answer, context=128):
        assert entry.content == "plain decoding" and entry.result is not None


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_exporting_an_answer_again_gives_the_same_files(rooftree, optimized, tmp_path, engine):
    answer, folder = optimized
    if engine not in answer["exports"]:
        done = rooftree(
            "export", engine, "--from", folder / "recommendation.json", "--out", tmp_path
        )
        assert done.code == 2 and not list(tmp_path.rglob("*"))
        return
    done = rooftree(
        "export", engine, "--from", folder / "recommendation.json", "--out", tmp_path, "--json"
    )
    if done.code == 2:
        assert f": {engine} " in done.err or f"{engine} " in done.err.removeprefix("rooftree: ")
        done = rooftree(
            "export",
            engine,
            "--from",
            folder / "recommendation.json",
            "--no-schedule",
            "--out",
            tmp_path,
        )
        assert done.code == 2 or set(read_files(tmp_path)) == set(read_files(folder / engine))
        return
    for name, text in read_files(folder / engine).items():
        assert without_comments(read_files(tmp_path)[name]) == without_comments(text)


def test_options_take_the_place_of_what_a_file_says(rooftree, tmp_path):
    tree = Tree.from_paths([(0,), (1,)])
    where = DeploymentNames(model="gpt2")
    chosen = DecodingConfiguration(
        deployment=where, method="eagle-3", draft_tokens=2, shape=tree, batch=1, context=8
    )
    row = {"batch": 1, "context": 8, "method": "eagle-3", "configuration": chosen.to_json()}
    path, answer = tmp_path / "chosen.json", tmp_path / "answer.json"
    path.write_text(json.dumps(chosen.to_json()))
    answer.write_text(json.dumps({"schema": 1, "choices": [row], "schedules": []}))
    for file, option in ((path, "--config"), (answer, "--from")):
        words = (
            "export",
            "vllm",
            option,
            file,
            "--draft",
            "a/head",
            "--out",
            tmp_path / "out",
            "--json",
        )
        assert rooftree(*words).code == 2
        command = rooftree(*words, "--draft-tokens", "4", "--model", "my/model").answer["command"]
        assert '"num_speculative_tokens":4' in command and "vllm serve my/model" in command
        lookup = ("--method", "n-gram", "--draft-tokens", "4")
        assert "n-gram drafts without" in rooftree(*words, *lookup).err
        without = [word for word in words if word not in ("--draft", "a/head")]
        assert '"method":"ngram"' in rooftree(*without, *lookup).answer["command"]


def read_files(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def without_comments(text):
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def test_a_third_of_the_layers_is_assumed_where_no_exit_is_named():
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model="smollm2-135m"), method="early-exit", draft_tokens=2
    )
    assert exit_layers(chosen) == 10
    assert exit_layers(dataclasses.replace(chosen, exit_layers=4)) == 4


def test_configurations_say_what_they_were_chosen_from(lookup, files):
    best = lookup.winners[0]
    told = lookup.configuration(best)
    assert told == dataclasses.replace(best.configuration, provenance=told.provenance)
    assert told.provenance["trace"] == files.lookup.name and told.trace == str(files.lookup)
    assert (told.batch, told.context) == (best.batch, best.context)
    scheduled = lookup.scheduled(best)
    assert scheduled.schedule == lookup.optimum.schedules[0].schedule.ranges
    assert {scheduled.deployment, told.deployment} == {
        lookup.contenders[0].configuration.deployment
    }
