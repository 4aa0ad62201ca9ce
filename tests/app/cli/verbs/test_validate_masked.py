"""`validate --method`: options arrive, others are refused, and the report lies in the folder."""

import json

import pytest

pytest.importorskip("torch")

from real_runs.validation.masked.validate import MaskedValidation
from real_runs.validation.score import ErrorSummary, Validation
from traces.kinds.refine_policy import RefinePolicy


@pytest.fixture
def asked(monkeypatch):
    """What the validation is asked, in place of running it."""
    given = []

    def validated(options, *, tell):
        given.append(options)
        summary = ErrorSummary(
            configurations=3,
            median_error_ratio=0.02,
            p90_error_ratio=0.05,
            step_median_error_ratio=0.02,
            tokens_per_step_median_error_ratio=0.0,
            bias_ratio=0.01,
            coverage_ratio=0.8,
            median_half_width_ratio=0.1,
            mean_regret_ratio=None,
            most_regret_ratio=None,
        )
        validation = Validation(points=(), regrets=(), summary=summary)
        return MaskedValidation(validation=validation, choices=(), replays=())

    monkeypatch.setattr("app.answers.validation.masked.validate_masked", validated)
    monkeypatch.setattr(
        "app.render.html.validation_page.write_validation_page", lambda report, page: None
    )
    return given


def test_options_arrive(rooftree, tmp_path, asked):
    done = rooftree(
        "validate",
        "--method",
        "fast-dllm",
        "--method",
        "dparallel",
        "--model",
        tmp_path / "m",
        "--batch",
        "1,2",
        "--rounds",
        "3",
        "--budget",
        "4m",
        "--seed",
        "5",
        "--resume",
        "--out",
        tmp_path / "v",
        "--json",
    )
    assert done.code == 0, done.err
    (options,) = asked
    assert RefinePolicy(commit="threshold", at={"confidence": 0.9}, cache="dual") in options.named
    assert {policy.commit for policy in options.named} == {"threshold", "entropy"}
    bench = options.bench
    assert (options.batches, options.seed) == ((1, 2), 5)
    assert (bench.rounds, bench.budget_s, bench.resume) == (3, 240, True)
    answer = json.loads((tmp_path / "v" / "validation.json").read_text())
    assert answer["inputs"]["method"] == ["fast-dllm", "dparallel"]
    assert str(tmp_path / "v") not in json.dumps(answer)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--method", "fast-dllm", "--profile", "h100-sxm"), "--profile"),
        (("--method", "fast-dllm", "--threads", "1"), "--threads"),
        (("--method", "n-gram"), "n-gram"),
        (("--method", "no-such-method"), "no-such-method"),
        (("--method", "fast-dllm", "--batch", "3"), "full batches"),
    ],
)
def test_what_is_refused(rooftree, tmp_path, words, named):
    done = rooftree("validate", *words, "--out", tmp_path / "v")
    assert done.code == 2 and named in done.err
    assert not (tmp_path / "v").exists()
