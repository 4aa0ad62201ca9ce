"""How drafts and requests share steps and devices."""
