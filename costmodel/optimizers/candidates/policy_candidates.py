"""What does a masked decoder commit under every policy that is compared, and in which settings are
policies costed?

A policy's rule, block and cache say which passes it runs; its thresholds how many tokens they
commit. Policies that differ in thresholds alone are candidates of one contender. Leaves out which
policies are tried (`policy_grid`) and what they do on recorded prompts
(`traces.replay.confidence.played`).
"""

from collections.abc import Sequence
from dataclasses import replace

from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting, compared_with
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.laws.own_pace import own_pace
from costmodel.optimizers.allowed import Contender
from hardware_profiles.errors import InfeasibleError, InputError
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.played import Played, RecordedPrompts, Unplayed


def policy_contenders(
    configuration: DecodingConfiguration,
    recorded: RecordedPrompts,
    policies: Sequence[RefinePolicy],
    *,
    source: int,
    seed: int,
    against: str = "",
) -> tuple[list[Contender], list[Unplayed]]:
    """Contenders whose candidates are policies, and the policies that cannot be answered for.

    Args:
        configuration: deployment and method; its canvas is the recorded one where it states none.
        recorded: prompts of the policies' cache.
        policies: of that cache.
        source: index of the drafter that the contenders are of.
        seed: of the bootstrap over prompts.
        against: model whose plain decoding they are compared with; empty: their own.
    """
    canvas = configuration.canvas_tokens or recorded.anchors.canvas_tokens
    configuration = replace(configuration, canvas_tokens=canvas)
    settings: dict[tuple[object, ...], tuple[DecodingConfiguration, Setting]] = {}
    paces: dict[tuple[object, ...], list[Acceptance]] = {}
    unplayed = []
    for played in recorded.played(policies, seed):
        if isinstance(played, Unplayed):
            unplayed.append(played)
            continue
        policy = played.policy
        passes = policy.commit, policy.block_tokens, policy.cache, policy.at.get("drafts")
        try:
            if passes not in settings:
                refined = replace(configuration, refine=policy)
                setting = compared_with(build_setting(refined), refined, against)
                settings[passes] = refined, setting
            pace = _pace(settings[passes][1], played)
        except (InputError, InfeasibleError) as error:
            unplayed.append(Unplayed(policy=policy, reason=str(error)))
        else:
            paces.setdefault(passes, []).append(pace)
    contenders = [
        Contender(
            configuration=settings[passes][0],
            setting=settings[passes][1],
            candidates=[geometric(0.0, 0), *candidates],
            source=source,
        )
        for passes, candidates in paces.items()
    ]
    return contenders, unplayed


def _pace(setting: Setting, played: Played) -> Acceptance:
    pace = own_pace(setting.drafter.method, played.replay.tokens_per_step)
    return replace(pace, played=played)
