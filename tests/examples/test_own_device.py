"""A card that just came out: an RTX 5090 from the template, with its datasheet's numbers in place
of a relative's."""

import re

import pytest

DATASHEET = {
    "memory": "GB = 34.19",
    "bandwidth": "GB_per_s = 1792",
    "cache": "MB = 98",
    "processors": "count = 170",
    "power": "W = 575",
    "bf16": "TFLOP_per_s = 209.5",
    "fp16": "TFLOP_per_s = 209.5",
    "fp8": "TFLOP_per_s = 419",
}
SOURCE = 'kind = "datasheet", source = "NVIDIA RTX Blackwell GPU architecture, appendix A"'


@pytest.fixture
def template(user, tmp_path):
    user("rooftree devices new ours-5090 --like rtx-4090 --out ours-5090.toml")
    return tmp_path / "ours-5090.toml"


@pytest.fixture
def filled(template):
    text = template.read_text()
    for key, value in DATASHEET.items():
        text, changed = re.subn(
            rf"^{key} = {{.*}}", f"{key} = {{ {value}, {SOURCE} }}", text, flags=re.MULTILINE
        )
        assert changed == 1, key
    template.write_text(text)
    return template


def test_the_template_loads_as_it_is_and_says_what_is_assumed(user, template):
    text = template.read_text()
    assert text.count("#") >= 10 and "REPLACE" in text
    shown = user("rooftree devices ours-5090.toml").out
    assert "assumed: REPLACE: the number of rtx-4090" in shown
    user("rooftree devices new ours-5090 --out ours-5090.toml", code=2)
    assert template.read_text() == text


def test_the_filled_template_answers_from_its_own_numbers(user, filled):
    """At batch 1 a pass reads the weights: it is faster than the relative's by close to the ratio
    of bandwidths."""
    (device,) = user("rooftree devices ours-5090.toml --json").answer["devices"]
    assert (device["bandwidth_bytes_per_s"], device["processors"]) == (1.792e12, 170)
    asked = (
        "rooftree predict --model llama-3.2-3b --method n-gram --acceptance 0.5 --batch 1"
        " --draft-tokens 0 --json"
    )
    ours, relatives = (
        user(f"{asked} --device {name}").answer["predictions"][0]["breakdown_s"]["verify"]
        for name in ("ours-5090.toml", "rtx-4090")
    )
    assert 0.75 * 1792 / 1008 < relatives / ours < 1.05 * 1792 / 1008


def test_it_goes_to_the_engines_file(user, filled, tmp_path):
    asked = (
        "rooftree optimize --model llama-3.1-8b --device ours-5090.toml --drafter eagle-3 --batch"
        " 1,4 --out plan --json"
    )
    rows = user(f"{asked} --out plan").answer["choices"]
    assert rows[0]["method"] == "eagle-3" and rows[0]["speedup"] > 1.4
    low, high = rows[0]["step_s_interval"]
    assert high / low > 1.1, "constants of a relative widen the interval"
    assert "vllm serve" in (tmp_path / "plan" / "vllm" / "vllm-serve.sh").read_text()


def test_all_slips_are_told_at_once(user, filled):
    text = filled.read_text()
    filled.write_text(
        text.replace("GB_per_s = 1792", "GB_per_s = -1792").replace("W = 575", "W = 0")
    )
    refused = user("rooftree devices ours-5090.toml", code=2)
    assert (
        "2 things are wrong" in refused.err
        and "bandwidth" in refused.err
        and "power" in refused.err
    )
    filled.write_text(text.replace('vendor = "NVIDIA"', "vendr = 3"))
    refused = user("rooftree devices ours-5090.toml", code=2)
    assert "vendr" in refused.err and "vendor" in refused.err


def test_a_name_as_vendors_write_it_is_spelled_as_files_are(user):
    refused = user('rooftree devices new "RTX 6000 Ada" --like l40s', code=2).err
    name = refused.partition("such as ")[2].partition(",")[0]
    user(f"rooftree devices new {name} --like l40s --out own.toml")
    assert "rtx-6000-ada" in user("rooftree devices own.toml").out
