"""How long do users of a serving engine wait for the first token and for each one after it?"""
