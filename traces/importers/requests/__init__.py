"""Which requests do public traces and benchmark runs list?"""
