"""Cells to fit on and cells that are scored share no prompt, no kind and no length."""

import pytest

from hardware_profiles.errors import InputError
from real_runs.prompt_set import Prompt, prompt_set, read_prompts
from real_runs.validation.cells import KINDS, make_cells, write_prompts


def words(text):
    return len(text.split())


def test_cells_are_disjoint_and_filled_to_their_length(tmp_path):
    cells, prompts = make_cells(
        read_prompts(), words, contexts=(0, 300), fitted_contexts=(120,), batches=(1, 4)
    )
    fits = {each for cell in cells if cell.phase == "fit" for each in cell.prompts}
    scored = {each for cell in cells if cell.phase == "score" for each in cell.prompts}
    assert fits and scored and not fits & scored
    by_id = {each.id: each for each in prompts.prompts}
    assert set(by_id) == fits | scored
    for cell in cells:
        assert len(cell.prompts) == (4 if cell.batch == 4 else 2)
        assert len(cell.groups) == (1 if cell.batch == 4 else 2)
        for each in cell.prompts:
            length = words(by_id[each].text)
            assert not cell.context or 0.9 * cell.context < length <= cell.context
    assert len({cell.name for cell in cells}) == len(cells) == 2 * 2 * 2 + 2


def test_a_prompt_ends_as_it_did_and_its_documents_are_no_other_cell_prompt(tmp_path):
    source = read_prompts()
    texts = {each.id: each.text for each in source.prompts}
    cells, prompts = make_cells(source, words, contexts=(400,), fitted_contexts=(100,))
    chosen = {
        each.split("-", 2)[2] for cell in cells if cell.phase == "score" for each in cell.prompts
    }
    for each in prompts.prompts:
        if each.kind.startswith("overlap"):
            own = each.id.split("-", 2)[2]
            assert each.text.endswith(texts[own])
            others = [
                texts[name]
                for name in chosen
                if name != own and source_kind(source, name) in KINDS["overlap"]
            ]
            assert not any(other in each.text for other in others)


def source_kind(source, name):
    return next(each.kind for each in source.prompts if each.id == name)


def test_the_prompt_file_reads_back_the_same(tmp_path):
    _, prompts = make_cells(read_prompts(), words, contexts=(0,), fitted_contexts=(100,))
    write_prompts(prompts, tmp_path / "p.toml")
    assert read_prompts(tmp_path / "p.toml") == prompts
    odd = prompt_set('"\\ é', [Prompt(id="a", kind="k", text='tab\t "quoted" \\ line\nend \x7f')])
    write_prompts(odd, tmp_path / "odd.toml")
    assert read_prompts(tmp_path / "odd.toml") == odd


def test_a_context_may_not_be_fitted_and_scored():
    with pytest.raises(InputError, match="both fitted on and scored"):
        make_cells(read_prompts(), words, contexts=(0, 256), fitted_contexts=(256,))


def test_too_few_prompts_are_said():
    few = prompt_set("few", [Prompt(id="a", kind="chat", text="hello")])
    with pytest.raises(InputError, match="needs 4 prompts"):
        make_cells(few, words)
