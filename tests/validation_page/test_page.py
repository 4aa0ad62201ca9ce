"""VALIDATION.md is what its command writes of the committed results, to the byte, and these hang
together."""

import pytest

from tests.validation_page import nearest, page, summaries
from tests.validation_page.summaries import chosen, kernels, read, vllm_speedups


def test_the_page_is_what_make_validation_writes():
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "run `make validation`"


@pytest.mark.parametrize("command", [page, summaries, nearest])
def test_commands_say_what_they_take_and_write_nothing_then(command, monkeypatch, capsys):
    before = page.PAGE.stat().st_mtime_ns
    monkeypatch.setattr("sys.argv", ["command", "--help"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.startswith("usage:")
    assert (command.__doc__ or "").splitlines()[0] in said
    assert page.PAGE.stat().st_mtime_ns == before


def test_the_readme_says_what_the_page_says(root):
    readme = (root / "README.md").read_text(encoding="utf-8")
    for line in page.in_short():
        assert line in readme, f"the README lacks: {line}"


def test_slices_of_unseen_runs_add_up_to_all_of_them():
    rows = read("unseen_serving")
    whole = rows[0]
    assert whole["slice"] == "all"
    for name in ("engine", "serving"):
        parts = [row for row in rows if row["slice"] == name]
        for count in ("measurements", "answered"):
            assert sum(row[count] for row in parts) == whole[count], name


@pytest.mark.parametrize(
    "name",
    [
        "unseen_serving",
        "unseen_serving_other_halves",
        "peers",
        "published_numbers",
        "chosen_shapes",
        "trace_losses",
        "vllm_speedups",
        "kernels",
    ],
)
def test_errors_are_ratios_and_medians_are_the_smaller(name):
    for row in read(name):
        for key, value in row.items():
            if key.endswith("_ratio") and value is not None:
                assert -1.0 <= value <= 10.0, (name, row, key)
        for quantity in ("", "tpot_", "ttft_"):
            middle, most = (row.get(f"{quantity}{key}_error_ratio") for key in ("median", "p90"))
            assert middle is None or most is None or middle <= most, (name, row)


def test_a_choice_loses_less_than_every_fixed_shape_where_one_length_is_known():
    lost = [
        row
        for row in read("chosen_shapes")
        if row["part"] == "lost" and row["place"] == "SGLang on H200"
    ]
    fixed = [row["mean_ratio"] for row in lost if row["value"].startswith("always")]
    ours = [row["mean_ratio"] for row in lost if row["value"].endswith("alone")]
    assert len(fixed) == 5 and len(ours) == 3 and max(ours) < min(fixed)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "—"), (0.0766, "7.7"), (0.0999, "10"), (0.52, "52"), (-0.04, "−4.0"), (0.0002, "0.0")],
)
def test_percents_have_one_digit_below_ten(ratio, text):
    assert page.signed(ratio).lstrip("+") == text


@pytest.mark.parametrize(
    ("name", "summarise"),
    [("chosen_shapes", chosen), ("kernels", kernels), ("vllm_speedups", vllm_speedups)],
)
def test_committed_summaries_are_of_the_present_model(name, summarise, reference_data):
    """Those that take seconds; a run over all serving rows takes minutes, and
    `tests/golden/test_published_errors.py` holds a sample of it."""
    now = summarise(reference_data)
    kept = read(name)
    assert len(now) == len(kept), "make the summary anew"
    for row, committed in zip(now, kept, strict=True):
        for key, value in row.items():
            near = pytest.approx(value, abs=0.002) if isinstance(value, float) else value
            assert committed[key] == near, (name, committed, key, value)
