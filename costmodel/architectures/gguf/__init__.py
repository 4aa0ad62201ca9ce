"""Models in GGUF files, as llama.cpp stores them."""
