"""How a model is decoded, and where: the type that is asked about, chosen, exported, simulated and
validated.
"""

from costmodel.configuration.decoding import DecodingConfiguration
from costmodel.configuration.deployment import DeploymentNames

__all__ = ["DecodingConfiguration", "DeploymentNames"]
