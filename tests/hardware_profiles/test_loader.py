"""From a name or a file to a device: names, relatives, refusals, and speed."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles import loader
from hardware_profiles.errors import CollectedError, InputError, UnknownNameError
from hardware_profiles.fitted.constants import CONSTANT_NAMES, OPERATIONS
from hardware_profiles.loader import DATA, device_names, load_device, widened
from hardware_profiles.schema import ConstantsFile, eightieth_percentile
from hardware_profiles.writer import device_text, write_device

H100 = (DATA / "h100-sxm.toml").read_text(encoding="utf-8")


def changed(tmp_path, old, new, text=H100):
    assert text.count(old) >= 1
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def refusal(path):
    with pytest.raises(InputError) as caught:
        load_device(path)
    assert str(path) in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", ["h100-sxm", "H100-SXM", "h100_sxm", "H100 SXM", "H100SXM"])
def test_names_in_any_case_and_with_any_separators(name):
    assert load_device(name) is load_device("h100-sxm")


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(
        UnknownNameError,
        match=r"unknown device 'h10'; nearest: h100-(pcie|sxm|nvl), h100-(pcie|sxm|nvl)",
    ):
        load_device("h10")
    with pytest.raises(UnknownNameError, match="rtx-4090"):
        load_device("rtx 4091")
    with pytest.raises(UnknownNameError):
        load_device("")


@given(st.text(max_size=20))
def test_any_name_is_a_device_or_an_input_error(name):
    try:
        assert load_device(name).name in device_names()
    except InputError as error:
        assert error.exit_code == 2


@pytest.mark.parametrize("name", ["h100-sxm", "l4", "cpu-generic", "a100-sxm-40"])
def test_what_is_written_reads_back(tmp_path, name):
    device, path = load_device(name), tmp_path / f"{name}.toml"
    write_device(device, path)
    copy = load_device(path)
    for field in (
        "name",
        "title",
        "vendor",
        "kind",
        "year",
        "processors",
        "provenance",
        "calibrated",
    ):
        assert getattr(copy, field) == getattr(device, field), field
    assert copy.bandwidth_bytes_per_s == pytest.approx(device.bandwidth_bytes_per_s, rel=1e-15)
    assert dict(copy.peak_flops_per_s) == pytest.approx(dict(device.peak_flops_per_s), rel=1e-15)
    for constant in CONSTANT_NAMES:
        assert copy.constants.number(constant) == pytest.approx(
            device.constants.number(constant), rel=1e-15
        )
    assert dict(copy.constants.residual_ratio) == pytest.approx(
        dict(device.constants.residual_ratio), rel=1e-15
    )
    assert copy.constants_from == name
    assert not list(tmp_path.glob("*.part"))


@given(st.text(min_size=1, max_size=60).filter(lambda text: text.isprintable() or "\n" in text))
def test_any_title_survives_writing(tmp_path_factory, title):
    text = device_text(replace(load_device("l4"), title=title))
    path = tmp_path_factory.mktemp("title") / "mine.toml"
    path.write_text(text, encoding="utf-8", newline="")
    assert load_device(path).title == title


def test_measured_profiles_are_found_beside_the_shipped_ones(tmp_path, monkeypatch):
    (tmp_path / "measured").mkdir()
    (tmp_path / "h100-sxm.toml").write_text(H100, encoding="utf-8")
    mine = H100.replace('name = "h100-sxm"', 'name = "h100-sxm--lab7"')
    (tmp_path / "measured" / "h100-sxm--lab7.toml").write_text(mine, encoding="utf-8")
    monkeypatch.setattr(loader, "DATA", tmp_path)
    assert device_names() == ["h100-sxm", "h100-sxm--lab7"]
    loader._shipped.cache_clear()
    assert load_device("H100-SXM--LAB7").name == "h100-sxm--lab7"
    loader._shipped.cache_clear()


def test_listing_opens_no_file(tmp_path, monkeypatch):
    (tmp_path / "broken.toml").write_text("= = =", encoding="utf-8")
    monkeypatch.setattr(loader, "DATA", tmp_path)
    assert device_names() == ["broken"]


# relatives


def test_carried_over_constants_are_marked_and_widened():
    device, relative = load_device("h200-sxm"), load_device("h100-sxm")
    assert device.constants_from == "h100-sxm" and not device.calibrated
    assert device.constants.moe.launch_s == relative.constants.moe.launch_s
    assert device.constants.residual_ratio["moe"] == pytest.approx(
        1.5 * relative.constants.residual_ratio["moe"]
    )
    assert device.provenance["constants.moe.launch_s"].kind == "assumed"
    assert "carried over from h100-sxm" in device.provenance["constants.moe.launch_s"].source
    assert device.provenance["constants.gemm.launch_s"].kind == "measured"
    assert device.constants.gemm.launch_s == pytest.approx(4.3e-6)


def test_a_relative_of_a_relative_widens_once():
    pro, h100 = load_device("rtx-5090"), load_device("h100-sxm")
    assert pro.constants.residual_ratio["mla"] == pytest.approx(
        3 * h100.constants.residual_ratio["mla"]
    )
    assert "carried over from h100-sxm" in pro.provenance["constants.mla.launch_s"].source
    assert "carried over from rtx-pro-6000" in pro.provenance["constants.gemm.launch_s"].source
    forty, eighty = load_device("a100-sxm-40").constants, load_device("a100-sxm-80").constants
    widest = h100.constants.residual_ratio["elementwise"]
    assert forty.residual_ratio["gemm"] == pytest.approx(1.5 * eighty.residual_ratio["gemm"])
    assert forty.residual_ratio["elementwise"] == pytest.approx(min(3 * widest, 0.95)), (
        "the wider of 1.5 and 3, not their product"
    )


def test_tile_times_follow_the_peak_of_one_processor():
    l4, pro = load_device("l4"), load_device("rtx-pro-6000")
    share = [
        each.peak("bf16") / each.processors * each.constants.unsplit.tile_s for each in (l4, pro)
    ]
    assert share[0] == pytest.approx(share[1])
    assert l4.constants.gemm.launch_s == pro.constants.gemm.launch_s


def test_without_a_shared_dtype_tile_times_are_kept(tmp_path):
    text = (DATA / "h100-pcie.toml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("fp32", "bf16", "fp16"))]
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    device, relative = load_device(path), load_device("h100-sxm")
    assert set(device.peak_flops_per_s) == {"fp8", "int8"}
    assert device.constants.unsplit.tile_s == relative.constants.unsplit.tile_s


def test_a_device_without_a_price_is_written_without_one():
    assert "price" not in device_text(replace(load_device("l4"), price_usd_per_hour=None))


@given(st.floats(1e-4, 5), st.floats(1, 100), st.floats(1, 100))
def test_widening_never_narrows(residual, factor, other):
    assert widened(residual, factor) >= residual
    assert widened(residual, factor) <= max(residual, 0.95)
    assert (widened(residual, factor) <= widened(residual, other)) or factor > other


@given(st.floats(1e-3, 1), st.floats(1, 20))
def test_the_eightieth_percentile_lies_between(median, spread):
    p80 = eightieth_percentile(median, median * spread)
    assert median * (1 - 1e-12) <= p80 <= median * spread * (1 + 1e-12)


def test_the_eightieth_percentile_of_a_log_normal(generator):
    error = generator.lognormal(-3, 0.8, 200_000)
    median, p80, p90 = np.quantile(error, [0.5, 0.8, 0.9])
    assert eightieth_percentile(median, p90) == pytest.approx(p80, rel=0.01)
    assert eightieth_percentile(0.05, 0.13) == pytest.approx(0.0937, abs=1e-4)


def test_circles_of_relatives_are_refused(tmp_path, monkeypatch):
    text = (DATA / "h100-pcie.toml").read_text(encoding="utf-8")
    for name, like in (("one", "two"), ("two", "one")):
        mine = text.replace('name = "h100-pcie"', f'name = "{name}"').replace(
            'like = "h100-sxm"', f'like = "{like}"'
        )
        (tmp_path / f"{name}.toml").write_text(mine, encoding="utf-8")
    monkeypatch.setattr(loader, "DATA", tmp_path)
    assert "must not lead back" in str(refusal(tmp_path / "one.toml"))


# refusals: each names file, key, rule and value


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        ("GB_per_s = 3350", "GB_per_s = -1", "bandwidth.GB_per_s", "must lie between"),
        ("GB_per_s = 3350", "GB_per_s = 0", "bandwidth.GB_per_s", "must lie between"),
        ("GB_per_s = 3350", "GB_per_s = nan", "bandwidth.GB_per_s", "must lie between"),
        ("GB_per_s = 3350", "GB_per_s = 3350e9", "bandwidth.GB_per_s", "got 3.35e+21"),
        ("GB_per_s = 3350", 'GB_per_s = "3350"', "bandwidth.GB_per_s", "valid number"),
        ("GB_per_s = 3350", "GB_per_s = true", "bandwidth.GB_per_s", "valid number"),
        (
            "GB_per_s = 3350",
            "TB_per_s = 3.35",
            "bandwidth",
            "unknown key 'TB_per_s'; nearest: GB_per_s",
        ),
        ("count = 132", "count = 132.5", "processors.count", "integer"),
        ("count = 132", "count = 0", "processors.count", "must lie between"),
        ("TFLOP_per_s = 989.4", "TFLOP_per_s = 0", "peak.bf16.TFLOP_per_s", "must lie between"),
        ("bf16 = {", "bf17 = {", "peak", "unknown key 'bf17'; nearest: bf16"),
        (
            "TFLOP_per_s = 989.4",
            "TFLOP_per_s = 989.4, PFLOP = 1",
            "peak.bf16",
            "unknown key 'PFLOP'; nearest: TFLOP_per_s",
        ),
        (
            "GB_per_s = 3350",
            "GB_per_s = 3350, bf16 = { x = { y = 1 } }",
            "bandwidth",
            "unknown key 'bf16'",
        ),
        ("bandwidth = {", "bandwith = {", None, "unknown key 'bandwith'; nearest: bandwidth"),
        ('kind = "gpu"', 'kind = "tpu"', "kind", "'gpu', 'cpu' or 'accelerator'"),
        ('kind = "datasheet"', 'kind = "guessed"', "bandwidth.kind", "'measured'"),
        ('name = "h100-sxm"', 'name = "../x"', "name", "pattern"),
        ('name = "h100-sxm"\n', "", "name", "is missing"),
        ("year = 2022", "year = 22", "year", "must lie between"),
        ("launch_us = 2.976", "launch_us = -3.8", "constants.gemm.launch_us", "must lie between"),
        (
            "launch_us = 2.976",
            "launch_ms = 3",
            "constants.gemm",
            "unknown key 'launch_ms'; nearest: launch_us",
        ),
        ("launch_us = 2.976\n", "", "constants.gemm.launch_us", "is missing"),
        ("norm = 3.363", "norm = 0.5", "constants.gemm.norm", "must lie between"),
        ("norm = 3.363", 'norm = "max"', "constants.gemm.norm", "valid number"),
        ("median_ratio = 0.05, ", "", "constants.prefill.residual", "either p80_ratio, or both"),
        (
            "median_ratio = 0.05",
            "median_ratio = 0.5",
            "constants.prefill.residual",
            "must not be below",
        ),
        ("p90_ratio = 0.15", "p90_ratio = 1e9", "constants.prefill.residual", "must lie between"),
        ("[constants.moe]", "[constants.moo]", "constants", "unknown key 'moo'; nearest: moe"),
    ],
)
def test_wrong_files_are_refused(tmp_path, old, new, key, said):
    error = refusal(changed(tmp_path, old, new))
    assert error.key == key
    assert said in str(error)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("TFLOP_per_s = ", "TFLOP_per_s = 1e-400 #", "must lie between"),
        ("count = ", "count = 0 #", "must lie between"),
    ],
)
def test_an_heir_without_peak_or_processors_is_refused(tmp_path, old, new, said):
    heir = (DATA / "a100-pcie-40.toml").read_text(encoding="utf-8")
    lines = [line for line in heir.splitlines() if line.startswith(("bf16 =", "processors ="))]
    line = next(line for line in lines if old in line)
    number = line.split(old)[1].split(",")[0]
    wrong = line.replace(f"{old}{number}", f"{new.removesuffix(' #')}")
    assert "like = " in heir and said in str(refusal(changed(tmp_path, line, wrong, heir)))


def test_a_missing_operation_needs_a_relative(tmp_path):
    whole = device_text(load_device("h100-sxm"))
    start = whole.index("[constants.host]")
    path = tmp_path / "mine.toml"
    path.write_text(whole[:start], encoding="utf-8")
    assert "constants.host: is missing, here and in every relative" in str(refusal(path))
    path.write_text(
        whole[:start].replace("[constants.gemm]", '[constants]\nlike = "h10"\n[constants.gemm]'),
        "utf-8",
    )
    assert "unknown device 'h10'; nearest: h100" in str(refusal(path))
    path.write_text(
        whole[:start].replace(
            "[constants.gemm]", '[constants]\nlike = "h100-sxm"\n[constants.gemm]'
        ),
        "utf-8",
    )
    assert (
        load_device(path).constants.host.layer_s == load_device("h100-sxm").constants.host.layer_s
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = ", "is not TOML"),
        (b"\xff\xfe\x00name", "is not TOML"),
        (b"", "is missing"),
        (b"a = " + b"[" * 100_000, "is not TOML"),
        (b"year = " + b"9" * 10_000, "is not TOML"),
        (b"# " + b"x" * loader.MAX_FILE_BYTES, "must be at most 1048576 bytes"),
        (b"name = 5", "name"),
        (H100.encode()[:2000], ""),
    ],
)
def test_foreign_and_truncated_files(tmp_path, content, said):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    assert said in str(refusal(path))


def test_a_file_that_is_not_there(tmp_path):
    assert "there is no such file" in str(refusal(tmp_path / "absent.toml"))
    (tmp_path / "folder.toml").mkdir()
    assert "must be a regular file" in str(refusal(tmp_path / "folder.toml"))


def test_a_file_is_read_anew_each_time(tmp_path):
    path = changed(tmp_path, "GB_per_s = 3350", "GB_per_s = 3000")
    assert load_device(path).bandwidth_bytes_per_s == 3000e9
    changed(tmp_path, "GB_per_s = 3350", "GB_per_s = 3100")
    assert load_device(str(path)).bandwidth_bytes_per_s == 3100e9


def test_importing_pulls_in_nothing_heavy():
    heavy = ("numpy", "pydantic", "numba", "pyarrow")
    program = (
        f"import sys, hardware_profiles.loader; print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_operation_of_the_file_is_one_of_the_record():
    assert set(ConstantsFile.model_fields) - {"like", "widening"} == set(OPERATIONS)


def test_everything_that_is_wrong_with_a_file_is_reported_at_once(tmp_path):
    text = (DATA / "l4.toml").read_text(encoding="utf-8")
    text = text.replace('kind = "gpu"', 'kind = "toaster"').replace(
        "GB_per_s = 300", 'GB_per_s = "fast"'
    )
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("year = 2023", "").replace("W = 72", "kW = 72"), encoding="utf-8")
    with pytest.raises(CollectedError) as caught:
        load_device(path)
    assert {error.key for error in caught.value.errors} == {
        "kind",
        "bandwidth.GB_per_s",
        "year",
        "power",
    }
    assert str(caught.value).startswith(f"{path}: 4 things are wrong")


def test_all_numbers_out_of_range_are_reported_at_once(tmp_path):
    text = (DATA / "l4.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(
        text.replace("GB_per_s = 300", "GB_per_s = -300").replace("W = 72", "W = 0"),
        encoding="utf-8",
    )
    with pytest.raises(CollectedError) as caught:
        load_device(path)
    assert [error.key for error in caught.value.errors] == ["bandwidth.GB_per_s", "power.W"]


def test_wrong_constants_of_several_operations_are_reported_at_once(tmp_path):
    text = (DATA / "h100-sxm.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    changed_text = text.replace("launch_us = 2.976\n", "", 1).replace(
        "row_us = 0.375", "row_ms = 0.375"
    )
    path.write_text(changed_text, encoding="utf-8")
    with pytest.raises(CollectedError) as caught:
        load_device(path)
    assert [error.key for error in caught.value.errors] == [
        "constants.gemm.launch_us",
        "constants.sampler",
    ]
    assert "unknown key 'row_ms'; nearest: row_us" in str(caught.value)
