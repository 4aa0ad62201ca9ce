"""What does a scenario of an encoder-decoder need: prompts that are read whole, and how many tokens
its encoder reads?

An encoder reads both ways, so that no prompt is cut into chunks and none shares a beginning with
another. Leaves out inputs of fixed length, which requests do not state.
"""

from costmodel.answers.estimate import Setting, reading
from hardware_profiles.errors import InputError
from simulator.scenario.file import ScenarioFile

WHOLE_PROMPTS = {"chunked_prefill": False, "prefix_cache": False}
"""Fields of `SchedulerOptions` under which an encoder-decoder runs."""


def encoding(written: ScenarioFile, setting: Setting, prompt_tokens: float) -> Setting:
    """The setting with the mean length of what its encoder reads, where it has one.

    Args:
        written: the scenario.
        setting: what the cost model times; unchanged without an encoder.
        prompt_tokens: mean length of the prompts.

    Raises:
        InputError: an input of fixed length, or parts of a scenario that an encoder excludes.
    """
    target = setting.target
    if target.encoder is None:
        return setting
    if target.source_positions:
        rule = (
            "reads an input of fixed length beside the prompt, which requests do not state; ask"
            " `rooftree predict`"
        )
        raise InputError(rule, key="deployment.model", value=target.called)
    for key in WHOLE_PROMPTS:
        if getattr(written.scheduler, key):
            raise InputError(
                f"must be off: the encoder of {target.called} reads prompts whole",
                key=f"scheduler.{key}",
                value=True,
            )
    if written.feed_forward is not None:
        raise InputError(
            "is known of models of one stack of layers", key="feed_forward", value=target.called
        )
    return reading(setting, prompt_tokens)
