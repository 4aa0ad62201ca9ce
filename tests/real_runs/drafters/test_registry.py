"""Every drafter has one entry, which says what it leaves and what decodes with it; a file adds one."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from costmodel.method_library import method_names
from hardware_profiles.errors import InputError
from real_runs.drafters import entries, registry
from real_runs.drafters.target import Target
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.prompt_set import Prompt, prompt_set
from real_runs.recording.options import RecordOptions
from real_runs.recording.record import record
from tests.real_runs.recording.two_prompts import PROMPTS
from traces.storage.acceptance_file import read_acceptance

TOY = '''
"""The token before, once more."""

import numpy as np

from real_runs.drafters.drafter import Drafter, LoopDrafter, RecordedDrafter


def observe(prompt, generation):
    known = [*prompt, *generation.tokens]
    same = [known[at - 1] == known[at] for at in range(len(prompt), len(known))]
    emitted = np.minimum(1 + np.array(same), np.arange(len(same), 0, -1)).astype(np.int16)
    return {"emitted": emitted, "drafted": np.ones(len(same), np.int16)}


DRAFTER = Drafter(
    method="n-gram",
    records="lengths",
    observe=lambda target: RecordedDrafter(
        title="the token before", parameters={}, notes="Exact for one token.", observe=observe
    ),
    propose=lambda target: LoopDrafter(chain=lambda: lambda known, cache, most: [known[-1]]),
)
'''


@pytest.fixture(scope="module")
def target(tiny_folder, tmp_path_factory):
    source, folder = find_model(tiny_folder), tmp_path_factory.mktemp("fits")
    weights = load_weights(source)
    return Target(
        model=Llama(weights),
        tokenizer=Tokenizer(source.path),
        sha256=weights.sha256,
        options=RecordOptions(
            out=folder, fit_answers=0, fit_characters=2000, head_rows=2, head_steps=1
        ),
        prompts=prompt_set("one", [Prompt(id="a", kind="k", text="one two one two")]),
        folder=folder,
    )


@pytest.mark.parametrize("name", registry.drafter_names())
def test_an_entry_names_a_method_of_the_catalogue(name):
    entry = registry.load_drafter(name)
    assert entry.method in method_names()
    assert entry.propose is not None or not entry.validated


@pytest.mark.parametrize("name", registry.drafter_names())
def test_an_entry_says_whether_its_loop_serves_requests_that_run_together(name, target):
    entry = registry.load_drafter(name)
    if entry.propose is not None:
        assert entry.serves_batches == (registry.loop_drafter(name, target).batch is not None)


def test_names_are_known_without_torch():
    words = (
        "import sys; from real_runs.drafters.registry import drafter_names;"
        " assert 'jacobi' in drafter_names() and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", words], check=True)


def test_what_no_loop_runs_and_what_nobody_knows_is_refused(target):
    with pytest.raises(InputError, match="no loop decodes with it"):
        registry.loop_drafter("jacobi", target)
    with pytest.raises(InputError, match="prompt-lookup"):
        registry.load_drafter("prompt-lokup")


def test_a_file_adds_a_drafter_that_records_and_decodes(tiny_folder, tmp_path, monkeypatch, target):
    folder = tmp_path / "entries"
    folder.mkdir()
    (folder / "same_again.py").write_text(TOY)
    (tmp_path / "prompts.toml").write_text(PROMPTS)
    monkeypatch.setattr(entries, "__path__", [*entries.__path__, str(folder)])
    try:
        options = RecordOptions(
            out=tmp_path / "out",
            model=tiny_folder,
            prompts=tmp_path / "prompts.toml",
            drafters=("same-again",),
            temperatures=(0.0,),
            max_new_tokens=8,
        )
        (file,) = record(options).files
        trace = read_acceptance(file.path)
        assert file.path.name.endswith("--same-again--greedy.parquet")
        assert trace.provenance.method == "n-gram" and set(np.unique(trace.emitted)) <= {1, 2}
        assert registry.loop_drafter("same-again", target).chain()([4, 5], None, 3) == [5]
    finally:
        sys.modules.pop("real_runs.drafters.entries.same_again", None)
        registry.load_drafter.cache_clear()
