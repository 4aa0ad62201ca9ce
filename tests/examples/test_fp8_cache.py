"""A long context: 32 requests of 32,768 tokens do not fit; does an 8-bit cache help, and what does
it cost?"""

import re

ASKED = "rooftree predict --model llama-3.1-8b --device h200-sxm --batch 32 --context 32768"
ASKED += " --method eagle-3 --acceptance 0.7"


def test_what_does_not_fit_names_the_cache_format_that_does(user):
    refused = user(f"{ASKED} --draft-tokens 0", code=3)
    assert re.search(r"fp8 cache fits", refused.err), refused.err
    assert re.search(r"batch (\d+) fits", refused.err)
    largest = int(re.search(r"batch (\d+) fits", refused.err)[1])
    assert 1 <= largest < 32
    user(f"{ASKED.replace('--batch 32', f'--batch {largest}')} --draft-tokens 0")
    user(f"{ASKED.replace('--batch 32', f'--batch {largest + 1}')} --draft-tokens 0", code=3)


def test_with_an_8_bit_cache_it_fits_and_reads_half_the_bytes(user):
    """A step reads the weights and the cache: halving the cache's bytes saves close to half of the
    cache's time."""
    rows = user(f"{ASKED} --kv-dtype fp8 --draft-tokens 0,3 --json").answer["predictions"]
    plain, drafted = rows
    assert plain["batch"] == 32 and drafted["speedup"] > 1.0
    cache_bytes = (
        32 * 32768 * 2 * 32 * 8 * 128
    )  # one byte a number: keys and values, layers, heads, width
    weight_bytes = 2 * 8.03e9
    least_s = (cache_bytes + weight_bytes) / 4.8e12
    assert least_s < plain["step_s"] < 2.5 * least_s

    eight = f"{ASKED.replace('--batch 32', '--batch 16')} --draft-tokens 0 --json"
    wide, narrow = (
        user(f"{eight} --kv-dtype {name}").answer["predictions"][0] for name in ("bf16", "fp8")
    )
    saved_s = wide["step_s"] - narrow["step_s"]
    assert 0.5 * cache_bytes / 2 / 4.8e12 < saved_s < 2.0 * cache_bytes / 2 / 4.8e12
