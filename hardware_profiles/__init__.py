"""Device profiles: what a device can do, where each number comes from, and how sure we are."""
