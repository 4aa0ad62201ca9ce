"""Methods of a reader's own: what a file may say, how its name is known, and where its fields go."""

import json
import tomllib
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import method_library as library
from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting, method_of, stated_method
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.configuration.file import read_configuration
from costmodel.laws.claims import rate_claim
from costmodel.method import LABELS
from costmodel.method_file import FORM, method_document, method_from, read_method_file
from costmodel.method_library import (
    entry_of,
    learn_method,
    load_method,
    method_names,
    priced_alike,
    priced_names,
    published_names,
    spelled,
    standing_in,
)
from costmodel.method_rules import DEPLOYMENT_OPTIONS, THRESHOLDS
from costmodel.method_template import method_template
from costmodel.optimizers.drafters.named_drafters import drafter_source
from hardware_profiles.errors import InputError, UnknownNameError
from tests.costmodel.own_methods import forgotten
from tests.every import every

SLUGS = published_names()
WHERE = DeploymentNames(model="llama-3.1-8b", device="h100-sxm")


@pytest.fixture(autouse=True)
def _nothing_learned():
    with forgotten():
        yield


def written(folder, slug="mine", *, name="mine.toml", like="eagle-3", **edits):
    """A file begun from a relative, with parts of its text replaced."""
    text = method_template(slug, like)
    for old, new in edits.items():
        text = text.replace(old.replace("_IS_", " = "), new)
    file = folder / name
    file.write_text(text)
    return file


@every("slug", SLUGS)
def test_every_entry_of_the_catalogue_can_be_written_and_read(slug):
    method = load_method(slug)
    document = json.loads(json.dumps(method_document(method)))
    assert method_from(document) == method


@every("slug", [slug for slug in priced_names() if slug != "plain-decoding"])
def test_a_file_begun_from_an_entry_is_priced_like_it(slug):
    method, relative = method_from(tomllib.loads(method_template("mine", slug))), load_method(slug)
    labels = {*LABELS, "engines"}
    assert method.slug == method.title == "mine" and not method.engines and not method.reported
    for field in fields(method):
        if field.name not in labels:
            assert getattr(method, field.name) == getattr(relative, field.name), field.name


def test_a_file_says_what_keys_mean_and_which_are_left_out():
    text = method_template("mine", "eagle-3")
    assert "# levels of a tree, root excluded; 0: no limit." in text
    assert "# heads = 0" in text
    assert '# [engines]  # those of eagle-3: vllm = "eagle3"' in text
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize(
    ("name", "like", "message"),
    [
        ("My Head", "eagle-3", "slug: must be lower case letters"),
        ("mine.toml", "eagle-3", "slug: must be lower case letters"),
        ("eagle-3", "eagle-3", "slug: is the name of a published method"),
        ("mine", "eagle3x", "unknown method 'eagle3x'; nearest: eagle-3"),
        ("mine", "plain-decoding", "slug: states nothing that a prediction executes"),
    ],
)
def test_a_file_cannot_be_begun_so(name, like, message):
    with pytest.raises(InputError, match=message):
        method_template(name, like)


EAGLE = method_document(load_method("eagle-3"))
MINE = {**EAGLE, "slug": "mine"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"titel": "x"}, "titel: is no key of it; nearest: title"),
        ({"title": 3}, "title: must be a text, got 3"),
        ({"draft": {"by": "head"}}, "draft: must be a list of tables"),
        ({"draft": [{"by": "hed"}]}, r"draft\[0\].by: must be one of lookup, model,"),
        ({"draft": [{"by": "head", "layers": -1}]}, r"draft\[0\].layers: must lie in \[0, 1000\]"),
        ({"draft": [{"by": "head", "layers": 10**400}]}, r"draft\[0\].layers: must be"),
        ({"draft": [{"by": "head", "rereads": 1}]}, "rereads: must be true or false, got 1"),
        ({"draft": []}, "shape.kind: names what `draft` is verified as"),
        ({"draft": [{"by": "model"}] * 2}, r"draft\[1\].tokens: a stage that drafts for another"),
        ({"shape": {"kind": "dynamic"}}, "shape.kind: must be one of none, chain"),
        ({"shape": {"kind": "chain", "nodes": 5000}}, r"shape.nodes: must lie in \[0, 4096\]"),
        ({"shape": {"kind": "block"}}, "shape.kind: `refine` and a block go together"),
        ({"verify": {"rule": "none"}}, "verify.rule: must say which draft tokens stay"),
        ({"verify": {"rule": "match", "at": {"ratio": 0.1}}}, "verify.at.ratio: is no threshold"),
        ({"target": [{"name": "x"}]}, r"target\[0\].kind: must be one of weights, cache"),
        ({"target": [{"kind": "wait", "name": "x"}]}, "unknown kind 'wait'; nearest: weights"),
        (
            {"target": [{"kind": "weights", "name": "x.y", "kept_ratio": 2.0}]},
            r"target\[0\].kept_ratio: must lie in \(0, 1\], got 2.0",
        ),
        ({"deployment": {"tensor": 2}}, "deployment: unknown option 'tensor'"),
        ({"deployment": {"tensor_parallel": True}}, "must be a whole number, got True"),
        ({"needs": "time"}, "needs: says why nothing is priced, beside what is"),
        ({"citation": {"title": "x", "arxiv": "1"}}, "citation.arxiv: must be a number like"),
        ({"assumed": ["guess"]}, "assumed: must name a field and the reason"),
        ({"slug": "Mine"}, "slug: must be lower case letters"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_by_key_rule_and_value(changes, message):
    with pytest.raises(InputError, match=message) as refused:
        method_from({**MINE, **changes}, file="mine.toml")
    assert str(refused.value).startswith("mine.toml: ")


def test_all_that_is_wrong_is_named_together():
    document = {"slug": "mine", "draft": [{"by": "hed", "layers": -1}], "citation": {"titel": "x"}}
    with pytest.raises(InputError, match="6 things are wrong") as refused:
        method_from(document, file="mine.toml")
    for key in ("title", "group", "read", "draft[0].by", "draft[0].layers", "citation.titel"):
        assert f"  {key}: " in str(refused.value)


def test_a_file_that_is_no_toml_or_none_at_all(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        load_method(str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text("slug = ")
    with pytest.raises(InputError, match=r"mine\.toml: is not TOML"):
        load_method(str(tmp_path / "mine.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match="must be a regular file"):
        load_method(str(tmp_path / "folder.toml"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part),
        max_leaves=8,
    ),
    st.sampled_from([field.name for field in fields(load_method("eagle-3"))]),
)
def test_any_value_of_a_field_is_read_or_refused(value, name):
    try:
        method_from({**MINE, name: value})
    except InputError as error:
        assert error.message


def test_a_file_is_known_by_its_slug_once_it_was_named(tmp_path):
    file = written(tmp_path)
    assert entry_of("mine") is None
    assert stated_method(str(file)) == "mine"
    assert load_method("mine") == read_method_file(file) == entry_of("mine")
    assert "mine" in method_names() and "mine" in priced_names()
    assert priced_alike()["mine"] == "mine", "no engine has a name for it yet"
    assert spelled("mine") == str(file) and spelled("eagle-3") == "eagle-3"
    assert method_of("eagle3") == "eagle-3", "a file takes no engine's name of a published method"


def test_a_file_that_was_edited_is_read_anew(tmp_path):
    stated_method(str(written(tmp_path)))
    before = step_s("mine")
    stated_method(str(written(tmp_path, layers_IS_1="layers = 4")))
    assert step_s("mine") > before


def step_s(slug):
    method = load_method(slug)
    setting = build_setting(DecodingConfiguration(method=slug, deployment=WHERE))
    return float(estimate(setting, rate_claim(method, 0.7, 3), batch=1, context=1024).step_s)


def test_two_methods_of_one_name_are_refused(tmp_path):
    stated_method(str(written(tmp_path)))
    other = written(tmp_path, name="other.toml", layers_IS_1="layers = 4")
    with pytest.raises(InputError, match=r"other\.toml: slug: is the name of another method in"):
        stated_method(str(other))
    published = tmp_path / "hass.toml"
    published.write_text(method_template("mine").replace('slug = "mine"', 'slug = "hass"'))
    with pytest.raises(InputError, match="slug: is the name of a published method"):
        stated_method(str(published))


def test_a_file_names_engines_that_there_are(tmp_path):
    file = written(tmp_path)
    file.write_text(file.read_text() + '[engines]\nvlm = "eagle3"\n')
    with pytest.raises(UnknownNameError, match=r"mine\.toml: engines: unknown engine 'vlm'"):
        stated_method(str(file))


def test_a_drafter_is_named_by_its_file(tmp_path):
    file = written(tmp_path)
    source = drafter_source(f"{file}:0.8,0.6")
    assert source.method == source.called == "mine"
    with pytest.raises(InputError, match=r"state its acceptance: one rate \(.*mine\.toml:0\.72\)"):
        drafter_source(str(file), model="llama-3.1-8b")


def test_a_configuration_carries_its_method(tmp_path):
    file = written(tmp_path)
    chosen = DecodingConfiguration(method=str(file), deployment=WHERE, draft_tokens=3)
    assert chosen.method == "mine" and chosen.entry == load_method("mine")
    assert replace(chosen, method="eagle-3").entry is None
    document = json.loads(json.dumps(chosen.to_json()))
    assert method_from(document["entry"]) == chosen.entry
    assert "entry" not in replace(chosen, method="eagle-3").to_json()
    (tmp_path / "answer.json").write_text(json.dumps(document))
    file.unlink()
    with forgotten():
        read = read_configuration(tmp_path / "answer.json")
        assert read == chosen and load_method("mine") == chosen.entry


def test_configurations_differ_where_their_methods_do(tmp_path):
    before = DecodingConfiguration(method=str(written(tmp_path)), deployment=WHERE)
    edited = written(tmp_path, layers_IS_1="layers = 4")
    after = DecodingConfiguration(method=str(edited), deployment=WHERE)
    assert hash(before) == hash(after) and before != after


def test_a_configuration_does_not_replace_a_file_that_was_named(tmp_path):
    file = written(tmp_path)
    chosen = DecodingConfiguration(method=str(file), deployment=WHERE)
    document = json.loads(json.dumps(chosen.to_json()))
    document["entry"]["draft"][0]["layers"] = 4
    with pytest.raises(InputError, match="slug: is the name of another method in"):
        DecodingConfiguration.from_json(document, file="answer.json")
    with pytest.raises(InputError, match="must be the method of the configuration"):
        DecodingConfiguration.from_json({**document, "method": "eagle-3"}, file="answer.json")
    with forgotten():
        assert DecodingConfiguration.from_json(document).entry.draft[0].layers == 4


def test_a_copy_stands_in_for_an_entry_only_meanwhile():
    before = load_method("eagle-3")
    copy = replace(before, host_s=1.0)
    with standing_in(copy):
        assert load_method("eagle-3") is copy
    assert load_method("eagle-3") is before and entry_of("eagle-3") is None


def test_a_package_cannot_change_what_a_published_name_means():
    with pytest.raises(InputError, match="is the name of a published method"):
        learn_method(replace(load_method("eagle-3"), host_s=1.0))
    learn_method(load_method("eagle-3"))
    assert entry_of("eagle-3") is None


def test_names_in_rules_are_those_of_records():
    assert set(DEPLOYMENT_OPTIONS) < {field.name for field in fields(DeploymentNames)}
    assert all(
        set(spans) <= {field.name for field in fields(kind)} for kind, spans in FORM.ranges.items()
    )
    assert set(THRESHOLDS) == {"typical", "near_match"}
    assert not library._OWN
