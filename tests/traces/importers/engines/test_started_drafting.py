"""The options of a draft come out of a log as they were stated, or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.importers.engines.started_drafting import stated_drafting

CONFIG = {
    "method": "eagle3",
    "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    "num_speculative_tokens": 5,
    "draft_tensor_parallel_size": 1,
}
SERVER = (
    "server_args=ServerArgs(model_path='m', tp_size=4, speculative_algorithm='EAGLE3',"
    " speculative_draft_model_path='d/e', speculative_draft_model_revision=None,"
    " speculative_num_steps=5, speculative_eagle_topk=1, speculative_num_draft_tokens=6)\n"
)


@pytest.mark.parametrize(
    "line",
    [
        f"INFO non-default args: {{'model': 'm', 'speculative_config': {CONFIG!r}, 'seed': 1}}\n",
        f"+ vllm serve m --speculative-config '{json.dumps(CONFIG)}' --port 80\n",
    ],
)
def test_vllm_states_all_of_its_options(line):
    option, config = stated_drafting(line * 2, "vllm")
    assert option == "--speculative-config" and json.loads(config) == CONFIG


def test_vllm_states_the_rest_in_its_record_alone():
    line = "config: SpeculativeConfig(method='mtp', model='m/t', num_spec_tokens=2), tp=1\n"
    _, config = stated_drafting(line, "vllm")
    assert json.loads(config) == {"method": "mtp", "model": "m/t", "num_speculative_tokens": 2}


def test_sglang_states_its_arguments():
    words = stated_drafting(SERVER, "sglang")
    assert " ".join(words) == (
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path d/e"
        " --speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6"
    )


def test_two_starts_that_differ_tell_nothing():
    assert stated_drafting(SERVER + SERVER.replace("steps=5", "steps=3"), "sglang") == ()
    assert stated_drafting("nothing", "vllm") == stated_drafting(SERVER, "llama.cpp") == ()


@given(st.text(alphabet="{}[]()'\":, \\\n0a", max_size=300))
def test_whatever_a_log_says_is_words_or_nothing(inside):
    text = f"'speculative_config': {{{inside}}} --speculative-config '{{{inside}}}'"
    for words in (stated_drafting(text, "vllm"), stated_drafting(text, "sglang")):
        assert all(isinstance(word, str) for word in words)
