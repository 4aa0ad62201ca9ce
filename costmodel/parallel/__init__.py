"""What does a pass cost when a model is spread over many devices, or shares work between
requests?
"""
