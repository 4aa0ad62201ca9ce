"""Verbs that speak to a server that is running: observe its counters, send it a load."""
