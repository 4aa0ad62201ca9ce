"""Every drafter that decodes or records here: a module each, with its entry `DRAFTER`."""
