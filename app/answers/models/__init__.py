"""Which models are shipped, what is one made of, and what is left of one that is cut?"""

from app.answers.models.models import answer

__all__ = ["answer"]
