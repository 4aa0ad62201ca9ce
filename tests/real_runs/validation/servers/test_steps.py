"""Steps of requests that begin together: whose tokens they are, and which passes they take."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from real_runs.servers.llama_cpp.answers import Answers, ServerAnswer
from real_runs.servers.llama_cpp.recording import lookup_trace
from real_runs.validation.servers.steps import counted_path, drawn_path, group_steps, recorded_path

REPEATING = (7, 8, 9, 10) * 16
SETUP = {
    "recorder": "r",
    "name": "m",
    "model_file": "m",
    "context": None,
    "dtype": "",
    "build": "",
    "dataset": "",
    "dataset_sha256": "",
    "ignore_eos": True,
}


def answers(*outputs, prompt=REPEATING):
    most = max(map(len, outputs))
    return Answers(
        setup=SETUP | {"max_new_tokens": most},
        requests=tuple(
            ServerAnswer(
                request=str(place),
                kind="",
                prompt=prompt,
                output=tuple(output),
                ended="length",
                drafted=0,
                accepted=0,
            )
            for place, output in enumerate(outputs)
        ),
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(2, 60), st.integers(0, 1000))
def test_drawn_steps_make_the_answer_and_draft_never_beyond_its_end(rates, tokens, seed):
    falling = sorted(rates, reverse=True)
    path = drawn_path(falling, 100, tokens, np.random.default_rng(seed))
    assert path.emitted.sum() == tokens - 1
    assert (path.emitted <= path.drafted + 1).all()
    assert path.context.tolist() == [100, *(100 + np.cumsum(path.emitted)[:-1])]
    left = tokens - 1 - np.concatenate([[0], np.cumsum(path.emitted)[:-1]])
    assert (path.drafted == np.minimum(len(rates), left - 1)).all()


def test_drawn_steps_keep_what_the_rates_say():
    generator = np.random.default_rng(1)
    paths = [drawn_path([0.8, 0.5, 0.1], 10, 400, generator) for _ in range(30)]
    whole = np.concatenate([path.emitted[path.drafted == 3] for path in paths])
    assert abs(whole.mean() - 2.4) < 0.05


@given(
    st.integers(1, 16), st.sampled_from([0.3, 0.5, 0.8]), st.integers(8, 60), st.integers(0, 1000)
)
def test_a_counted_path_is_a_path_of_the_rates_with_the_counts_of_the_server(k, rate, tokens, seed):
    rates = [rate**depth for depth in range(1, k + 1)]
    served = drawn_path(rates, 100, tokens, np.random.default_rng(seed))
    counted = len(served.drafted), int(served.drafted.sum())
    path = counted_path(rates, 100, tokens, counted, np.random.default_rng(seed + 1))
    assert path.emitted.sum() == tokens - 1 and (path.emitted <= path.drafted + 1).all()
    again = counted_path(rates, 100, tokens, counted, np.random.default_rng(seed))
    assert (len(again.drafted), int(again.drafted.sum())) == counted, "drawn as the server's was"
    # a rare answer of the server may have no near path among the drawn ones
    generator = np.random.default_rng(seed + 1)
    drawn = [drawn_path(rates, 100, tokens, generator) for _ in range(40)]
    steps = abs(len(path.drafted) - counted[0])
    drafts = abs(int(path.drafted.sum()) - counted[1])
    for other in drawn:
        nearer = abs(len(other.drafted) - counted[0]) < steps
        assert not nearer or abs(int(other.drafted.sum()) - counted[1]) > drafts


def test_counted_paths_are_near_what_a_server_counts_nearly_always():
    rates, far = [0.3**depth for depth in range(1, 6)], 0
    for seed in range(25):
        served = drawn_path(rates, 100, 40, np.random.default_rng(seed))
        counted = len(served.drafted), int(served.drafted.sum())
        path = counted_path(rates, 100, 40, counted, np.random.default_rng(1000 + seed))
        far += abs(len(path.drafted) - counted[0]) > 2
    assert far <= 1


def test_recorded_steps_are_plain_without_a_draft_and_all_accepted_in_a_text_that_repeats():
    trace = lookup_trace(answers(REPEATING[:21]), size_n=2, size_m=4)
    plain, drafted = recorded_path(trace, 0, 0), recorded_path(trace, 0, 4)
    assert plain.emitted.tolist() == [1] * 20 and not plain.drafted.any()
    assert plain.context.tolist() == [64 + place for place in range(20)]
    # three tokens follow the last occurrence, one period back
    assert drafted.emitted.tolist() == [4] * 5 and drafted.drafted.tolist() == [3] * 5


def test_a_request_that_ends_leaves_its_slot_and_a_lone_draft_takes_a_pass_of_its_own():
    made = answers(REPEATING[:9], [1, 2, 3, 5, 11, 12, 13, 14, 15])
    trace = lookup_trace(made, size_n=2, size_m=4)
    steps = group_steps([recorded_path(trace, place, 4) for place in range(2)])
    assert steps.ends.tolist() == [2, 8] and steps.tokens.tolist() == [8, 8]
    assert steps.served.tolist() == [2, 2, *[1] * 6]
    passes = zip(steps.verify.step, steps.verify.requests, steps.verify.query_tokens, strict=True)
    assert [(b, n) for step, b, n in passes if step == 0] == [(2, 1), (1, 3)]
    assert not len(steps.draft.step)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(2, 30), st.integers(0, 99))
def test_a_draft_model_runs_once_for_every_draft_token_and_once_over_what_is_verified(
    slots, k, tokens, seed
):
    generator = np.random.default_rng(seed)
    paths = [drawn_path([0.5] * k, 50, tokens, generator) for _ in range(slots)]
    steps = group_steps(paths, draft_model=True)
    drafted = sum(int(path.drafted.sum()) for path in paths)
    verified = int((steps.verify.requests * steps.verify.query_tokens).sum())
    assert verified == drafted + int(steps.ends.sum())
    assert int((steps.draft.requests * steps.draft.query_tokens).sum()) == verified + drafted
