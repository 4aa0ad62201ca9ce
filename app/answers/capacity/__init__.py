"""How many devices serve a load within its limits, at what power and price?"""

from app.answers.capacity.capacity import answer

__all__ = ["answer"]
