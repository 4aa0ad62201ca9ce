"""From which acceptance, to which draft cost and at which batches does a method pay?"""

from app.answers.breakeven.breakeven import answer

__all__ = ["answer"]
