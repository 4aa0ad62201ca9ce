"""`calibrate`: this machine, or a server that runs an engine."""
