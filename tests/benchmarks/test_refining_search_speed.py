"""CPU time of a search over policies of masked decoding, with costs, quality and intervals; best of
two."""

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.policy_grid import policy_grid
from costmodel.optimizers.drafters.sources import prompts_sources
from costmodel.optimizers.recommend import recommend
from traces.library import trace_file
from traces.replay.confidence.played import recorded_prompts
from traces.replay.confidence.walk import replay_policy
from traces.storage.confidence_file import read_confidence

SETTINGS, MOST_S = 500, 10.0


def test_thresholds_blocks_and_caches(benchmark, cpu_s, aim):
    """82 thresholds up to .99, five blocks without a cache and the recorded one with it, three
    batches."""
    shipped = ("confidence/masked-names--plain", "confidence/masked-names--dual-cache")
    traces = [read_confidence(trace_file(name)) for name in shipped]
    recorded = {prompts.cache: prompts.anchors for prompts in recorded_prompts(traces)}
    rules = [("threshold", {"confidence": 0.18 + at / 100}) for at in range(82)]
    policies = policy_grid(method_policy(load_method("fast-dllm")), recorded, rules=rules)
    where = DeploymentNames(model="llada-8b", device="h100-sxm")
    question = DecodingConfiguration(deployment=where, method="fast-dllm")

    def search():
        sources = prompts_sources(recorded_prompts(traces), "fast-dllm")
        return recommend(
            question, sources, batches=[1, 4, 16], contexts=[1024], policies=policies, floor=0.95
        )

    found = benchmark.pedantic(search, rounds=1)
    assert len(found.winners) == 3
    seconds = cpu_s(search, 2) * SETTINGS / len(policies)
    alone = (
        cpu_s(lambda: [replay_policy(recorded[each.cache], each) for each in policies[::41]], 1)
        * 41
    )
    aim("seconds for 500 settings, replayed and costed", seconds, most=MOST_S)
    aim(
        "ratio to one replay a setting, without costs",
        seconds / (alone * SETTINGS / len(policies)),
        most=1.0,
    )
