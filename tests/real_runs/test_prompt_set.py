"""The shipped prompts, and files of prompts from elsewhere."""

from collections import Counter

import pytest

from hardware_profiles.errors import InputError
from real_runs.prompt_set import DEFAULT_PROMPTS, fit_questions, prompt_set, read_prompts

KINDS = {"chat", "code completion", "code editing", "summarising", "translation", "reasoning"}


def test_shipped_set_has_six_kinds_of_six_or_more():
    prompts = read_prompts()
    counts = Counter(prompt.kind for prompt in prompts.prompts)
    assert set(counts) == KINDS
    assert min(counts.values()) >= 6
    assert len({prompt.text for prompt in prompts.prompts}) == len(prompts.prompts)


def test_editing_prompts_quote_what_is_to_be_changed():
    editing = [prompt for prompt in read_prompts().prompts if prompt.kind == "code editing"]
    assert all(len(prompt.text.splitlines()) >= 8 for prompt in editing)


def test_fit_questions_exclude_the_recorded_prompts():
    shipped = read_prompts()
    questions = fit_questions(shipped)
    assert len(questions) >= 10
    assert not {prompt.text.strip() for prompt in shipped.prompts} & set(questions)
    stolen = prompt_set("x", [shipped.prompts[0].model_copy(update={"text": f" {questions[0]}\n"})])
    assert questions[0] not in fit_questions(stolen)


def test_digest_follows_content_and_not_layout(tmp_path):
    text = DEFAULT_PROMPTS.read_text(encoding="utf-8")
    path = tmp_path / "p.toml"
    path.write_text(
        "# another comment\n\n" + text.replace("[[prompts]]", "\n[[prompts]]  # one"),
        encoding="utf-8",
    )
    assert read_prompts(path) == read_prompts()
    path.write_text(text.replace("Thursday", "Tuesday"), encoding="utf-8")
    assert read_prompts(path).sha256 != read_prompts().sha256


def test_fewer_of_each_kind_are_another_set():
    whole = read_prompts()
    few = whole.first_of_each_kind(2)
    assert set(Counter(prompt.kind for prompt in few.prompts).values()) == {2}
    assert few.sha256 != whole.sha256
    assert whole.first_of_each_kind(1000) == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "cannot be read as TOML"),
        ('title = "a"\nprompts = []', "prompts"),
        (
            'title = "a"\n[[prompts]]\nid = "1"\nkind = "k"\ntext = "t"\nextra = 1',
            r"prompts\.0\.extra",
        ),
        ('title = "a"\n[[prompts]]\nid = "1"\nkind = "k"', r"prompts\.0\.text"),
        ('title = "a"\n[[prompts]]\nid = "1"\nkind = "k"\ntext = ""', r"prompts\.0\.text"),
        (
            'title = "a"' + '\n[[prompts]]\nid = "1"\nkind = "k"\ntext = "t"' * 2,
            "ids must differ, got '1'",
        ),
    ],
)
def test_bad_prompt_files_are_refused(tmp_path, text, message):
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_prompts(path)
    assert caught.value.file == str(path)


def test_absent_prompt_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml"):
        read_prompts(tmp_path / "none.toml")


@pytest.mark.model
def test_every_shipped_prompt_is_short(shipped_model):
    _, tokenizer = shipped_model
    assert max(len(tokenizer.chat_ids(prompt.text)) for prompt in read_prompts().prompts) < 400
