"""Some replicas of a fleet whose requests are all known."""

from dataclasses import replace


def sampled(fleet, sample):
    """The scenario of a fleet with the replicas of a sample, and with their requests alone."""
    columns = ("arrival_s", "prompt_tokens", "output_tokens")
    own = {name: getattr(fleet.workload, name)[sample.places] for name in columns}
    workload = replace(fleet.workload, **own)
    return replace(fleet, workload=workload, replicas=len(sample.chosen), sample=sample)
