"""Medusa with typical acceptance: a guess stays if the target finds it likely enough, whatever it
would have drawn.
"""

from dataclasses import replace

from costmodel.method import Verify
from costmodel.methods.heads.medusa import METHOD as MEDUSA

METHOD = replace(
    MEDUSA,
    slug="medusa-typical",
    title="Medusa, typical acceptance",
    exact_when="",
    verify=Verify(rule="typical", at={"posterior_threshold": 0.09, "entropy_factor": 0.3}),
    engines={},
    systems=(),
    reported=(),
)
