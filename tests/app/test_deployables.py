"""Every engine gets the fastest thing that it can express, and is told why where that is nothing."""

import dataclasses
import json

import pytest

from app.deployables import DRAFT_PLACEHOLDER, EXPORT_NAMES, deployables, stated_choice, write_all
from app.exporters.choice import METHODS
from app.exporters.registry import ENGINES
from costmodel.method_library import load_method, method_names
from costmodel.optimizers.recommend import recommend
from costmodel.scenario import Scenario
from hardware_profiles.errors import InputError
from traces.store import read_acceptance, write_acceptance


def search(*paths, **changes):
    settings = {"model": "", "device": "l4", "engine": "none"} | changes
    return recommend(
        Scenario(**settings), list(paths), batches=[1, 16, 256], contexts=[128], draft_tokens=[1, 3], tree_sizes=[8]
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


def test_every_drafter_has_a_name_that_exporters_know():
    drafters = {load_method(slug).drafter for slug in method_names()}
    assert drafters <= set(EXPORT_NAMES) and set(EXPORT_NAMES.values()) <= set(METHODS)


def test_one_entry_per_engine_with_files_or_a_reason(lookup):
    entries = deployables(lookup, draft=None, context=128)
    assert [entry.engine for entry in entries] == list(ENGINES)
    for entry in entries:
        assert (entry.result is not None) == bool(entry.content)
        assert entry.result is not None or entry.reason


def test_vllm_gets_the_schedule_that_was_found(lookup):
    (found,) = lookup.optimum.schedules
    assert len(found.schedule.ranges) > 1
    (vllm,) = (entry for entry in deployables(lookup, draft=None, context=128) if entry.engine == "vllm")
    config = json.loads(vllm.result.files["vllm-speculative-config.json"])
    assert config["num_speculative_tokens"] == max(k for _, _, k in found.schedule.ranges)
    assert [list(entry)[-1] for entry in config["num_speculative_tokens_per_batch_size"]] == [
        k for _, _, k in found.schedule.ranges
    ]


def test_write_all_lists_what_lies_there(lookup, tmp_path):
    entries = deployables(lookup, draft=None, context=128)
    written = write_all(entries, tmp_path)
    there = sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())
    assert sorted(path for paths in written.values() for path in paths) == there
    assert set(written) == {entry.engine for entry in entries if entry.result is not None}


def test_an_engine_without_trees_or_schedules_gets_the_best_chain_and_says_so(recorded_as):
    answer = search(recorded_as("eagle-3"))
    assert answer.winners[0].topology == "tree" and len(answer.optimum.schedules[0].schedule.ranges) > 1
    entries = {entry.engine: entry for entry in deployables(answer, draft="heads/of-mine", context=128)}
    assert "by batch" in entries["vllm"].content and not entries["vllm"].reason
    one_chain = entries["llama.cpp"]
    assert one_chain.content == "eagle3, chain of 3 draft tokens"
    assert "one draft length" in one_chain.reason and "one chain" in one_chain.reason
    for entry in entries.values():
        for text in entry.result.files.values() if entry.result else ():
            assert DRAFT_PLACEHOLDER not in text
    assert "heads/of-mine" in "".join(entries["vllm"].result.files.values())


@pytest.mark.parametrize("layers", [2, 4])
def test_an_early_exit_is_where_it_was_priced(files, layers):
    answer = search(files.ranks, exit_layer=layers)
    assert answer.winners[0].topology != "off"
    entries = {entry.engine: entry for entry in deployables(answer, draft=None, context=128)}
    config = json.loads(entries["transformers"].result.files["target/generation_config.json"])
    assert config["assistant_early_exit"] == layers


def test_what_no_engine_runs_is_refused_by_each_with_its_reason(recorded_as):
    answer = search(recorded_as("medusa"))
    assert answer.winners[0].topology == "tree"
    for entry in deployables(answer, draft="heads/of-mine", context=128):
        assert entry.result is None and not entry.content and entry.reason.startswith("medusa: ")


def test_a_missing_draft_is_marked_and_not_invented(recorded_as):
    answer = search(recorded_as("eagle-3"))
    (vllm,) = (entry for entry in deployables(answer, draft=None, context=128) if entry.engine == "vllm")
    assert DRAFT_PLACEHOLDER in "".join(vllm.result.files.values())


def test_where_no_draft_pays_plain_decoding_is_written(files):
    answer = search(
        files.lookup, device="h100-sxm", engine="none", model="qwen3-0.6b", draft_passes=8, draft_bytes=1e10
    )
    assert {choice.topology for choice in answer.winners} == {"off"}
    for entry in deployables(answer, draft=None, context=128):
        assert entry.content == "plain decoding" and entry.result is not None


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_exporting_an_answer_again_gives_the_same_files(rooftree, optimized, tmp_path, engine):
    answer, folder = optimized
    if engine not in answer["exports"]:
        done = rooftree("export", engine, "--from", folder / "recommendation.json", "--out", tmp_path)
        assert done.code == 2 and not list(tmp_path.rglob("*"))
        return
    done = rooftree("export", engine, "--from", folder / "recommendation.json", "--out", tmp_path, "--json")
    if done.code == 2:
        assert f"{engine} " in done.err.removeprefix("rooftree: schedule: ") and "schedule" in done.err
        done = rooftree("export", engine, "--from", folder / "recommendation.json", "--no-schedule", "--out", tmp_path)
        assert done.code == 2 or set(read_files(tmp_path)) == set(read_files(folder / engine))
        return
    for name, text in read_files(folder / engine).items():
        assert without_comments(read_files(tmp_path)[name]) == without_comments(text)


def test_options_take_the_place_of_what_an_answer_says(rooftree, tmp_path):
    tree = {"parents": [-1, 0, 0], "ranks": [0, 0, 1]}
    choice = {"batch": 1, "context": 8, "method": "eagle-3", "draft_tokens": 2, "tree": tree}
    answer = {"schema": 1, "inputs": {"model": "gpt2", "tp": 1}, "choices": [choice], "schedules": []}
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    words = ("export", "vllm", "--from", path, "--draft", "a/head", "--out", tmp_path / "out", "--json")
    assert rooftree(*words).code == 2
    command = rooftree(*words, "--draft-tokens", "4", "--model", "my/model").answer["command"]
    assert '"num_speculative_tokens":4' in command and "vllm serve my/model" in command
    assert '"method":"ngram"' in rooftree(*words, "--method", "n-gram", "--draft-tokens", "4").answer["command"]


def read_files(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def without_comments(text):
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def test_a_stated_chain():
    choice = stated_choice({"model": "llama-3.1-8b", "method": "eagle-3", "draft_tokens": 3}, draft="my/head")
    assert (choice.method, choice.topology, choice.draft_tokens) == ("eagle3", "chain", 3)
    assert choice.draft_model == "my/head" and choice.model == "meta-llama/Llama-3.1-8B-Instruct"


def test_a_stated_schedule_takes_the_place_of_a_tree():
    fields = {
        "model": "gpt2", "method": "n-gram", "draft_tokens": 2, "tree": {"parents": [-1, 0], "ranks": [0, 0]},
        "schedule": [[1, 8, 5], [9, 64, 0]], "batch": 4,
    }  # fmt: skip
    choice = stated_choice(fields, draft=None)
    assert (choice.topology, choice.draft_tokens, choice.tree, choice.max_batch) == ("chain", 5, None, None)
    assert choice.draft_tokens_at(8) == 5 and choice.draft_tokens_at(9) == 0
    single = stated_choice(fields | {"schedule": []}, draft=None)
    assert (single.topology, single.draft_tokens, single.max_batch) == ("tree", 1, 4)


def test_stated_exit_layers_are_kept_and_a_third_is_assumed():
    fields = {"model": "smollm2-135m", "method": "early-exit", "draft_tokens": 2}
    assert stated_choice(fields, draft=None).exit_layers == 10
    assert stated_choice(fields | {"exit_layers": 4}, draft=None).exit_layers == 4


@pytest.mark.parametrize("method", [None, "plain-decoding", "n-gram"])
def test_no_draft_tokens_is_plain_decoding(method):
    choice = stated_choice({"model": "gpt2", "method": method}, draft=None)
    assert (choice.method, choice.topology, choice.draft_tokens) == ("plain", "off", 0)


@pytest.mark.parametrize(
    "fields",
    [{}, {"model": ""}, {"model": "gpt2", "method": "x"}, {"model": "gpt2", "draft_tokens": 3},
     {"model": "gpt2", "method": "n-gram", "draft_tokens": -1},
     {"model": "gpt2", "method": "n-gram", "schedule": [[2, 8, 5]]}],
)  # fmt: skip
def test_contradictions_are_refused(fields):
    with pytest.raises(InputError):
        stated_choice(fields, draft=None)


def test_where_the_numbers_come_from_is_told():
    provenance = {"device": {"name": "l4"}, "acceptance": {"label": "acceptance borrowed from gpt2"}}
    told = stated_choice(
        {"model": "gpt2", "method": "n-gram", "draft_tokens": 2, "provenance": provenance, "speedup": 1.25}, draft=None
    ).provenance
    assert told == {"device": "l4", "acceptance": "acceptance borrowed from gpt2", "speedup": "1.250"}
