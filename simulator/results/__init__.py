"""What a simulation leaves: metrics, resources, timelines."""
