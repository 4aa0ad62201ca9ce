"""Which methods are known, what is one of them made of, what is priced of them, and how does
another one join them?
"""

from app.answers.methods.methods import answer

__all__ = ["answer"]
