"""A device's profile from measurements on it."""
