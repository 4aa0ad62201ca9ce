"""The guide's question: diffusion or token by token, and with which threshold, block and cache?"""

import re


def test_the_winner_of_the_guide_is_priced_and_compared_with_its_twin(user, tmp_path, root):
    guide = (root / "GUIDE.md").read_text()
    command = re.search(
        r"^    (rooftree optimize .*--quality-floor .*)$", guide, flags=re.MULTILINE
    ).group(1)
    found = user(f"{command} --json --out serving").answer
    assert found["quality"]["floor"] == 0.95 and set(found["quality"]["prompts"]) == {
        "none",
        "dual",
    }
    assert [choice["batch"] for choice in found["choices"]] == [1, 4, 16]
    for choice in found["choices"]:
        assert choice["agreement"] >= 0.95
        needed = choice["needed_tokens_per_step"]
        assert (needed is not None and choice["tokens_per_step"] > needed) == (
            choice["speedup"] > 1.0
        )
    speedups = [choice["speedup"] for choice in found["choices"]]
    assert speedups == sorted(speedups, reverse=True), (
        "every pass of a block computes more than one of a token"
    )
    priced = user("rooftree predict --config serving/configuration.json --json").answer[
        "predictions"
    ][-1]
    assert abs(priced["tokens_per_s"] / found["choices"][0]["tokens_per_s"] - 1.0) < 1e-9
    assert (tmp_path / "serving" / "report.html").stat().st_size > 10_000
