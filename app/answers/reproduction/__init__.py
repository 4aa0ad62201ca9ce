"""What would the cost model have said of every published number, from the inputs beside it?"""

from app.answers.reproduction.reproduction import answer

__all__ = ["answer"]
