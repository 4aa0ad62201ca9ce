"""Engine files: what was measured on a machine stands in place of the engine's own numbers;
mistakes are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_module, load_engine
from costmodel.engines.record.engine import ANY
from costmodel.engines.record.file import write_engine_file
from costmodel.engines.record.host import Host
from costmodel.engines.record.overhead import Overhead
from hardware_profiles.errors import InputError

GOOD = 'like = "vllm"\n[overheads."*"]\nstep_us = 100\nsource = "timed"\n'.replace("100", "100.0")
seconds = st.floats(0.0, 1.0)


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return written


def test_a_files_overheads_take_the_place_of_all_of_the_engines_own(file):
    shipped, own = load_engine("vllm"), load_engine(file(GOOD))
    assert set(own.overheads) == {ANY}
    assert own.overhead("ngram").step_s == pytest.approx(1e-4)
    assert own.overhead("none").request_s == 0.0
    assert (own.name, own.memory, own.host, own.options) == (
        shipped.name,
        shipped.memory,
        shipped.host,
        shipped.options,
    )
    assert engine_module(file(GOOD)) == "vllm"


@given(seconds, seconds, seconds, seconds, st.text(min_size=1, max_size=40).filter(str.strip))
def test_what_is_written_is_read(tmp_path_factory, step, draft, request, prompt, source):
    path = tmp_path_factory.mktemp("engine") / "e.toml"
    more = {"engine": "llama.cpp", "versions": "", "source": source}
    overhead = Overhead(
        step_s=step, draft_s=draft, request_s=request, verify_ratio=0.25, spread_ratio=0.5, **more
    )
    write_engine_file(
        path,
        like="llama.cpp",
        overheads={ANY: overhead},
        host=Host(prompt_s=prompt, source="timed"),
    )
    read = load_engine(str(path))
    found = read.overhead("ngram")
    written = pytest.approx((step, draft, request), rel=1e-5, abs=1e-12)
    assert (found.step_s, found.draft_s, found.request_s) == written
    assert (found.verify_ratio, found.spread_ratio) == (0.25, 0.5)
    assert read.host.prompt_s == pytest.approx(prompt, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("like = ", "TOML"),
        (GOOD.replace("like", "likes"), "likes.*no key"),
        (GOOD.replace("vllm", "vlm"), "vllm"),
        (GOOD.replace('"*"', '"ngram"'), "every drafter"),
        (GOOD.replace("100.0", "-1.0"), "step_us"),
        (GOOD.replace("100.0", "nan"), "step_us"),
        (GOOD.replace('source = "timed"', ""), "source"),
        (GOOD + "[host]\nprompt_ms = 1.0\n", "prompt_ms"),
    ],
)
def test_what_is_wrong_is_named(file, text, words):
    with pytest.raises(InputError, match=words):
        load_engine(file(text))
    with pytest.raises(InputError, match="no such file"):
        load_engine("absent.toml")


def test_a_setting_takes_an_engine_file(file):
    names = DeploymentNames(model="smollm2-135m", device="cpu-generic", engine=file(GOOD))
    found = build_setting(DecodingConfiguration(method="n-gram", deployment=names))
    assert found.overhead.step_s == pytest.approx(1e-4)
    assert found.plain_overhead == found.overhead
