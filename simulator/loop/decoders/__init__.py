"""How the requests of an iteration decode: what they walk along, draft and keep."""
