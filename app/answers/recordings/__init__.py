"""What do recorded traces hold, how do they compare, and what does an import make of a file?"""
