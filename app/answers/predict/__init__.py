"""How fast are stated configurations, and where does a step's time go?"""

from app.answers.predict.predict import answer

__all__ = ["answer"]
