"""Tables that no single decoding step answers: shared prefixes, prices of tokens, single layers,
long prompts.
"""
