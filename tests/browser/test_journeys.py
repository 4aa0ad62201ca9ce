"""Tasks that people come with, from the first page to an answer or a command that the command line
gives, too."""

import json
import shlex

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app.cli.main import main
from app.render.charts.charts import digits
from tests.browser.screenshots import patient
from tests.browser.steps import (
    commands,
    followed,
    headline,
    is_at,
    query,
    reached,
    settled,
    slid,
    slid_to,
    turned_to,
    typed,
    unfolded,
)


def said(capsys, line, folder):
    """The JSON answer of a command line, and the files that it writes."""
    capsys.readouterr()
    assert main([*shlex.split(line)[1:], "--json", "--out", str(folder)]) == 0
    return json.loads(capsys.readouterr().out)


def agrees(page, capsys, folder):
    """Whether a page's headline and speed are those of the command line that it hands out."""
    told = said(capsys, commands(page)[-1], folder)["choices"][0]
    assert f"{told['draft_tokens']} draft token" in headline(page)
    assert f"batch {told['batch']:,} " in headline(page)
    assert (
        f"{digits(told['tokens_per_s'])} tokens/s"
        in page.locator("[data-part=words] dl").inner_text()
    )
    return told


def test_eagle_3_on_four_h100_for_70b_at_batch_64_gives_the_command_that_optimize_writes(
    asked, capsys, tmp_path
):
    page = asked("method=eagle-3&batch=48&context=4096")
    typed(page, "model", "llama-3.1-70b")
    slid_to(page, "batch", 64)
    slid_to(page, "context", 8192)
    slid_to(page, "tp", 4)
    assert "Nearest that holds: batch 57" in headline(page), (
        "in sixteen bits the cache does not fit"
    )
    with followed(page):
        page.get_by_role("button", name="fp8 cache", exact=True).click()
    assert page.get_by_text("Runner-up").count() == 1
    assert (
        "eagle-3" in headline(page)
        and "batch 64 " in headline(page)
        and "context 8,192" in headline(page)
    )
    engine, *_ = (text.strip() for text in commands(page))
    assert agrees(page, capsys, tmp_path)["batch"] == 64
    script = (tmp_path / "vllm" / "vllm-serve.sh").read_text()
    words = shlex.split(script.partition("exec ")[2].replace("\\\n", " "))
    assert [word for word in shlex.split(engine) if word in words] == shlex.split(engine)
    assert "--tensor-parallel-size 4" in engine and '"method":"eagle3"' in engine


def test_back_five_times_is_five_pages_back(asked, capsys, tmp_path):
    page = asked()
    titles = [
        "What should I run?",
        "Break-even map",
        "Tree explorer",
        "Trace lab",
        "Hardware what-if",
        "Validation",
    ]
    for title in titles[1:]:
        turned_to(page, title)
    for title in reversed(titles[:-1]):
        page.go_back()
        is_at(page, title)
    agrees(page, capsys, tmp_path)


def test_a_limit_that_no_batch_meets_says_so_and_names_what_is_nearest(asked, capsys, tmp_path):
    page = asked("batch=8&slo_tpot=0.01")
    limits, _, rest = headline(page).partition(". ")
    assert limits.startswith("Within 0.01 ms a token") and "no user" in limits
    assert rest.startswith("Batch 8 misses the limits")
    unfolded(page)
    assert page.get_by_role("region", name="What does not hold").locator("tbody tr").count() == 9
    capsys.readouterr()
    assert main([*shlex.split(commands(page)[-1])[1:], "--json", "--out", str(tmp_path)]) == 3
    assert "no configuration meets" in "".join(capsys.readouterr())
    typed(page, "slo_tpot", "8")
    agrees(page, capsys, tmp_path)


def test_70b_on_one_device_is_one_press_from_an_answer(asked, capsys, tmp_path):
    page = asked("model=llama-3.1-70b&device=h100-sxm&tp=2")
    slid_to(page, "tp", 1)
    assert "does not fit" in headline(page)
    page.keyboard.press("Escape")
    with followed(page):
        page.get_by_role("button", name="tp 2", exact=True).click()
    assert page.get_by_text("Whole batch", exact=True).count() == 1
    agrees(page, capsys, tmp_path)
    slid(page, "batch")
    assert (query(page)["tp"], query(page)["batch"]) == ("2", "2"), "what was pressed stays"


def test_a_link_in_a_new_session_is_the_same_answer(asked, browser, capsys, tmp_path):
    page = asked(
        "model=qwen3-8b&method=n-gram&known_by=rate&acceptance=0.4&rivals=eagle-3&batch=16"
    )
    slid(page, "batch")
    assert query(page)["batch"] == "24" and "batch 24 " in headline(page)
    elsewhere = browser.new_context()
    again = patient(elsewhere.new_page())
    again.goto(page.url)
    settled(again)
    assert (headline(again), commands(again)) == (headline(page), commands(page))
    assert again.url == page.url
    agrees(again, capsys, tmp_path)
    elsewhere.close()


def test_two_tabs_ask_two_questions(asked, capsys, tmp_path):
    one, other = asked("batch=4"), asked("batch=64")
    slid_to(one, "batch", 8)
    assert "batch 8 " in headline(one) and "batch 64 " in headline(other)
    slid_to(other, "batch", 48)
    told = [agrees(each, capsys, tmp_path)["batch"] for each in (one, other)]
    assert told == [8, 48]


def test_controls_keep_their_values_while_their_buttons_are_closed(asked):
    page = asked(
        "model=llama-3.2-3b&device=l4&context=4096&engine=sglang&method=eagle-3&known_by=rate&batch=4"
    )
    before = query(page)
    slid_to(page, "batch", 8)
    page.keyboard.press("Escape")
    reached(page, "device")
    slid_to(page, "tp", 2)
    after = query(page)
    assert after == {**before, "batch": "8", "tp": "2"}


def test_a_model_is_typed_by_its_parameters_and_a_wrong_one_is_said(asked):
    page = asked()
    typed(page, "model", "13b")
    assert query(page)["model"] == "dense-13b"
    typed(page, "model", "no-such-model", refused=True)
    page.get_by_test_id("stAlert").get_by_text("unknown model").wait_for()
    settled(page)  # until then the answer of before stands under the words
    assert query(page)["model"] == "dense-13b"
    assert page.locator("[data-part=words]").count() == 0, "no answer to what was typed before"
    typed(page, "model", "llama-3.2-1b")
    assert page.get_by_text("unknown model").count() == 0


def test_a_config_of_ones_own_is_asked_about(asked, tmp_path):
    config = {
        "model_type": "llama",
        "num_hidden_layers": 16,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "intermediate_size": 8192,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    page = asked()
    reached(page, "model")
    with followed(page):
        page.locator(".st-key-file-of-model input[type=file]").set_input_files(
            str(tmp_path / "config.json")
        )
    assert query(page)["model"].startswith("config-")
    assert "--model config.json" in commands(page)[-1]
    assert "tmp" not in page.locator("[data-testid=stMain]").inner_text()
