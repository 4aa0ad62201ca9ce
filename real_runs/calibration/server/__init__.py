"""An engine's own constants, from requests to a live server."""
