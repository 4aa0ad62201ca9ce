"""Optimisers: trees, schedules and the joint search."""
