"""Where weights and tokens come from: GGUF and safetensors files, random weights of a published
shape.
"""
