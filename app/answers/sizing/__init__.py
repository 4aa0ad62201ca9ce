"""How many replicas, or workers of two pools, keep limits under a load?"""
