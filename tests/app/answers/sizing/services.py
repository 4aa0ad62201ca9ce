"""A small service whose replicas are sized."""

from functools import cache

from app.answers.sizing.replicas import Sizing
from app.answers.sizing.traffic import Traffic
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric


@cache
def _configured():
    where = DeploymentNames(model="llama-3.2-1b", device="l4")
    configuration = DecodingConfiguration(method="plain-decoding", deployment=where)
    return configuration, build_setting(configuration)


def small_service(load, limits):
    """Plain decoding of a small model on a small device, whose requests all have mean lengths."""
    configuration, setting = _configured()
    return Sizing(
        configuration=configuration,
        setting=setting,
        drafts=[geometric(0.0, 0)],
        load=load,
        traffic=Traffic(
            requests=None,
            prompt_tokens=str(round(load.mean_prompt_tokens)),
            output_tokens=str(round(load.output_tokens)),
        ),
        limits=limits,
        seed=0,
        utilisation=0.8,
    )
