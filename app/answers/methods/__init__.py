"""Which methods are published, what is one of them made of, and what is priced of them?"""

from app.answers.methods.methods import answer

__all__ = ["answer"]
