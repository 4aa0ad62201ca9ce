"""How many tokens per step does a recording give, and does our choice beat published policies?"""

from app.answers.replay.replay import answer

__all__ = ["answer"]
