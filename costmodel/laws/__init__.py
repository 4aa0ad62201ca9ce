"""Mechanisms of decoding methods: how many tokens a step keeps, and what drafting them takes."""
