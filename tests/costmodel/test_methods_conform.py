"""The same checks over every published method: data only, consistent with itself, costable."""

import ast
import re
from pathlib import Path

import pytest

from app.answers.methods.conformance import price_checks
from costmodel import methods
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names
from costmodel.laws.claims import tokens_claim
from costmodel.method import Method
from costmodel.method_library import load_method, priced_names, published_names
from costmodel.method_rules import contradictions
from hardware_profiles.errors import InputError, UnknownNameError
from tests.every import every

SLUGS = published_names()
FOLDER = Path(methods.__file__).parent
FILES = {
    path.stem.replace("_", "-"): path for path in FOLDER.rglob("*.py") if path.name != "__init__.py"
}


def test_the_first_eight_are_there():
    assert {
        "plain-decoding",
        "speculative-decoding",
        "n-gram",
        "medusa",
        "eagle-3",
        "mtp",
        "sequoia",
        "early-exit",
    } <= set(SLUGS)


@every("slug", SLUGS)
def test_a_file_holds_one_constant_and_nothing_else(slug):
    source = FILES[slug].read_text()
    body = ast.parse(source).body
    assert isinstance(body[0], ast.Expr), "a module docstring"
    assert all(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) for node in body[1:])
    assigned = [node for node in body if isinstance(node, ast.Assign)]
    assert [node.targets[0].id for node in assigned] == ["METHOD"]
    assert FILES[slug].parent.name in (load_method(slug).group.replace(" ", "_"), "methods")


@every("slug", SLUGS)
def test_a_method_is_whole(slug):
    method = load_method(slug)
    assert isinstance(method, Method)
    assert method.slug == slug
    c = method.citation
    assert c.title and (c.year is None or 2000 < c.year < 2100)
    for reported in method.reported:
        assert reported.source
        assert reported.quantity != "tokens_per_step" or reported.value >= 1
    assert set(method.engines) <= set(engine_names())


@every("slug", SLUGS)
def test_a_method_agrees_with_itself(slug):
    assert not contradictions(load_method(slug))


@every("slug", [slug for slug in SLUGS if load_method(slug).refusal])
def test_a_method_that_is_not_priced_says_why(slug):
    method = load_method(slug)
    with pytest.raises(InputError, match=re.escape(method.refusal)):
        build_setting(
            DecodingConfiguration(method=slug, deployment=DeploymentNames(model="llama-3.1-8b"))
        )


@every("slug", priced_names())
def test_a_method_can_be_costed(slug):
    method = load_method(slug)
    checks = list(price_checks(method))
    assert len(checks) == 1 + method.has_own_pace + 2 * method.drafts
    assert not [check for check in checks if not check.holds]


def test_names_are_forgiving_and_unknown_ones_answered():
    assert load_method("EAGLE_3") is load_method("eagle-3")
    with pytest.raises(UnknownNameError, match="eagle-3"):
        load_method("eagle3x")


@pytest.mark.parametrize("slug", ["eagle-2", "hass", "msd", "rasd", "scylla"])
def test_trees_of_eagle_2_have_six_levels(slug):
    """arXiv:2406.16858, appendix A; EAGLE-3's have eight of as many nodes (arXiv:2503.01840,
    appendix A)."""
    shape, longer = load_method(slug).shape, load_method("eagle-3").shape
    assert (shape.nodes, shape.depth, shape.width, shape.beam) == (59, 6, 10, 10)
    assert (longer.nodes, longer.depth) == (59, 8)
    with pytest.raises(InputError, match=r"\[1, 7\]"):
        tokens_claim(load_method(slug), 7.5)
