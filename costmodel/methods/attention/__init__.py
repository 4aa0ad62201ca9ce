"""Which tokens attend to which, in prompts and while decoding."""
