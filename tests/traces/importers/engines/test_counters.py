"""vllm-metrics: differences of two scrapes, engines added up, restarts refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.importers.engines.counters import read


def scrape(*engines, model="llama", suffix="_total"):
    """A /metrics page; an engine is (drafts, draft tokens, accepted, per position...)."""
    lines = [
        "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.",
        "vllm:num_requests_running 3",
    ]
    for engine, (drafts, drafted, accepted, *positions) in enumerate(engines):
        labels = f'engine="{engine}",model_name="{model}"'
        for name, value in (
            ("drafts", drafts),
            ("draft_tokens", drafted),
            ("accepted_tokens", accepted),
        ):
            lines.append(f"vllm:spec_decode_num_{name}{suffix}{{{labels}}} {value}")
            lines.append(f"vllm:spec_decode_num_{name}_created{{{labels}}} 1.7e+09")
        for at, value in enumerate(positions):
            name = f"vllm:spec_decode_num_accepted_tokens_per_pos{suffix}"
            lines.append(f'{name}{{{labels},position="{at}"}} {value}')
            lines.append(
                f'{name.removesuffix("_total")}_created{{{labels},position="{at}"}} 1.7e+09'
            )
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path):
    def write(*texts):
        paths = [tmp_path / f"{name}.prom" for name in ("before", "after")][-len(texts) :]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return paths

    return write


def test_difference_summed_over_engines(files):
    before = scrape((10, 30, 12, 8, 3, 1), (0, 0, 0, 0, 0, 0))
    after = scrape((110, 330, 162, 88, 53, 21), ("5.0e+01", 150, 60, 40, 15, 5))
    trace = read(*files(before, after))
    summary = trace.summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == (150, 450, 210)
    assert summary.acceptance_by_depth == pytest.approx((120 / 150, 65 / 150, 25 / 150))
    assert summary.tokens_per_step == pytest.approx(1 + sum(summary.acceptance_by_depth)) == 2.4
    assert trace.level == 0 and trace.provenance.model == "llama"
    assert trace.provenance.extra == {"draft_tokens_per_draft": 3.0}
    assert trace.provenance.notes == (
        "Level 0: no positions, so no replay; holds for the draft lengths in use only."
    )
    assert trace.provenance.recorder_version == "vLLM Prometheus counters"


def test_an_engine_that_came_later_counts_from_zero(files):
    trace = read(*files(scrape((10, 10, 5, 5)), scrape((20, 20, 9, 9), (6, 6, 2, 2))))
    assert trace.summary.drafts == 16 and trace.summary.accepted_tokens == 6


def test_one_scrape_counts_from_the_start_and_says_so(files):
    trace = read(*files(scrape((10, 20, 5, 4, 1), suffix="")))
    assert trace.summary.acceptance_by_depth == (0.4, 0.1)
    assert "since the engine started" in trace.provenance.notes


def test_several_models_need_a_choice(files):
    both = scrape((10, 10, 5, 5)) + scrape((4, 4, 1, 1), model="qwen")
    with pytest.raises(InputError, match="llama, qwen"):
        read(*files(both))
    assert read(*files(both), model="qwen").summary.drafts == 4
    with pytest.raises(InputError, match="of model gemma"):
        read(*files(both), model="gemma")


def test_mixed_lengths_and_missing_positions_are_noted(files):
    assert "mixed" in read(*files(scrape((10, 15, 6, 5, 1)))).provenance.notes
    trace = read(*files(scrape((10, 20, 6))))
    assert "only the mean" in trace.provenance.notes and trace.summary.acceptance_by_depth == ()
    assert "under load" in read(*files(scrape((1000, 2000, 600, 500, 101)))).provenance.notes


def test_counters_read_under_load_may_differ_by_a_few_steps(files):
    trace = read(*files(scrape((1000, 2000, 1999, 1001, 1001))))
    assert trace.summary.acceptance_by_depth == (1.0, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        (scrape((10, 10, 5, 5)), scrape((9, 10, 5, 5)), "restarted"),
        (scrape((10, 10, 5, 5), (1, 1, 0, 0)), scrape((20, 20, 6, 6)), "restarted"),
        (scrape((10, 10, 5, 5)), scrape((10, 10, 5, 5)), "no draft"),
        (scrape((10, 10, 5, 5)), "", "no speculative"),
        ("", scrape((10, 10, 5, 5)), "no speculative"),
        (scrape((0, 0, 0)), scrape((100, 100, 99, 20, 79)), "not rise"),
        (scrape((0, 0, 0)), scrape((100, 100, 99, 200)), "not rise"),
        (scrape((0, 0, 0)), scrape((100, 100, 101, 99)), "tokens drafted"),
        (scrape((0, 0, 0)), scrape((1.5, 1, 1)), "whole number"),
        (scrape((0, 0, 0)), scrape(("NaN", 1, 1)), "number >= 0"),
        (scrape((0, 0, 0)), scrape(("+Inf", 1, 1)), "number >= 0"),
        (scrape((0, 0, 0)), scrape((-1, 1, 1)), "number >= 0"),
        (scrape((0, 0, 0)), scrape(("one", 1, 1)), "number >= 0"),
        (
            scrape((0, 0, 0)),
            scrape((1, 1, 1)) + 'vllm:spec_decode_num_drafts_total{engine="0"\n',
            "sample",
        ),
        (
            scrape((0, 0, 0, 0)),
            scrape((1, 1, 1, 1)).replace('position="0"', 'position="x"'),
            "vanished",
        ),
        (
            scrape((0, 0, 0)),
            scrape((1, 1, 1, 1)).replace('position="0"', 'position="x"'),
            "position",
        ),
        (
            scrape((0, 0, 0)),
            scrape((1, 1, 1, 1)).replace('position="0"', 'position="99999"'),
            "position",
        ),
    ],
)
def test_refusals_name_a_file(files, before, after, rule):
    with pytest.raises(InputError, match=rule) as caught:
        read(*files(before, after))
    assert ".prom" in str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("metrics")


PIECES = st.sampled_from(
    [
        "vllm:spec_decode_num_",
        "drafts",
        "accepted_tokens_per_pos",
        "_total",
        "{",
        "}",
        'position="1"',
        '="',
        "\\",
        ",",
        " ",
        "1",
        "9" * 30,
        "1e400",
        "-",
        "NaN",
        "\n",
        "é",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join) | st.binary(max_size=40))
def test_hostile_pages_raise_input_errors_only(folder, content):
    file = folder / "hostile.prom"
    raw = content if isinstance(content, bytes) else (scrape((1, 1, 1, 1)) + content).encode()
    file.write_bytes(raw)
    try:
        assert read(file).level == 0
    except InputError as error:
        assert "hostile.prom" in str(error)
