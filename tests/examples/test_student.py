"""A student with one consumer card and two small models: what does speculative decoding bring there?"""

import re


def test_from_two_models_to_a_speedup_and_where_its_time_goes(user):
    pair = "--model Qwen/Qwen2.5-7B-Instruct --device rtx4090"
    refused = user(f"rooftree predict {pair} --batch 1", code=2).err
    plainly = re.search(r"(--draft-tokens 0) decodes plainly", refused).group(1)
    (plain,) = user(f"rooftree predict {pair} --batch 1 {plainly} --json").answer["predictions"]

    drafted = f"{pair} --draft Qwen/Qwen2.5-0.5B-Instruct"
    missing = user(f"rooftree optimize {drafted} --batch 1", code=2).err
    named = re.search(r"say what is accepted of it: (--drafter \S+)", missing).group(1)
    named = named.rstrip(",")
    answer = user(f"rooftree optimize {drafted} {named} --batch 1 --out answer --json").answer
    (choice,) = answer["choices"]
    assert choice["method"] == "speculative-decoding" and choice["speedup"] > 1.2

    needed = user(f"rooftree breakeven {drafted} --batch 1 --json").answer["points"]
    assert needed[0]["least_acceptance"] < 0.7
    explained = user(
        f"rooftree predict {drafted} {named} --draft-tokens {choice['draft_tokens']} --batch 1"
        " --explain --out why --json"
    ).answer["predictions"][-1]
    assert explained["tokens_per_s"] > 1.2 * plain["tokens_per_s"]


def test_a_name_that_is_not_known_offers_those_that_are(user):
    assert "nearest: qwen2.5-3b" in user("rooftree models qwen2.5", code=2).err
    assert "rtx-4090" in user("rooftree devices rtx", code=2).err
