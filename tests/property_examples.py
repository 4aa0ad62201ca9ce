"""How many examples does a property take that states a number of its own?"""

from hypothesis import settings

USUAL = 30
"""The number of examples in a profile under which properties take as many as they state."""


def examples(stated):
    """Examples of a property under the profile that is loaded: `stated` ones at most where the
    profile has fewer than usual, and more in proportion where it has more."""
    most = settings().max_examples
    return min(stated, most) if most < USUAL else stated * most // USUAL
