"""Which threshold, block and cache should a method that refines masked blocks run with?"""
