"""Which configuration should be run?"""
