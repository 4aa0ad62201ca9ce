"""What is chosen for a server is what is predicted fastest of what the optimiser proposes."""

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from real_runs.servers.llama_cpp.answers import Answers, ServerAnswer
from real_runs.trials.trials import PromptCell
from real_runs.validation.predict import PredictedRun, Prediction
from real_runs.validation.servers.choice import chosen_for
from real_runs.validation.servers.configurations import plain
from real_runs.validation.servers.recordings import KnownPrompts

ASKED = DecodingConfiguration(
    deployment=DeploymentNames(model="smollm2-135m", device="cpu-generic", engine="llama.cpp"),
    max_batch=2,
    max_length=400,
)
CELL = PromptCell(phase="score", kind="chat", context=256, batch=2, prompts=("a", "b"))
PERIOD = tuple(range(100, 124))
SETUP = {
    "recorder": "",
    "name": "m",
    "model_file": "smollm2-135m",
    "context": None,
    "dtype": "",
    "build": "",
    "dataset": "",
    "dataset_sha256": "",
    "max_new_tokens": 48,
    "ignore_eos": True,
}


def recorded(output):
    requests = tuple(
        ServerAnswer(
            request=name,
            kind="",
            prompt=PERIOD * 8,
            output=output,
            ended="length",
            drafted=0,
            accepted=0,
        )
        for name in CELL.prompts
    )
    times = dict.fromkeys(CELL.prompts, 1.0)
    return KnownPrompts(answers=Answers(setup=SETUP, requests=requests), prompt_s=times)


def timed(seconds):
    """Predictions that depend on the configuration alone."""

    def predict(served, group, counted):
        run = PredictedRun(
            tokens=90, steps=45, request_steps=90, draft_s=0.0, verify_s=seconds(served), rest_s=0.0
        )
        return Prediction(run=run, ttft_s=0.1, tpot_s=0.1, spread_ratio=0.1)

    return predict


def test_a_lookup_is_chosen_where_text_repeats_and_is_predicted_faster(tmp_path):
    best = chosen_for(
        CELL,
        recorded(PERIOD * 2),
        ASKED,
        tmp_path,
        timed(lambda one: 1.0 / (1 + one.draft_tokens)),
        draft=False,
        seed=0,
    )
    assert best.chosen.method == "n-gram" and best.draft_tokens >= 5 and best.chosen.max_batch == 2
    assert best.chosen.ngram_min == best.chosen.ngram_max


def test_plain_decoding_is_chosen_where_steps_are_predicted_to_cost_too_much(tmp_path):
    slow = timed(lambda one: 1.0 + one.draft_tokens)
    assert chosen_for(
        CELL, recorded(PERIOD * 2), ASKED, tmp_path, slow, draft=False, seed=0
    ) == plain(ASKED)


def test_nothing_is_chosen_that_never_finds_anything(tmp_path):
    fresh = tuple(range(5000, 5048))
    chosen = chosen_for(
        CELL, recorded(fresh), ASKED, tmp_path, timed(lambda one: 1.0), draft=False, seed=0
    )
    assert chosen == plain(ASKED)
