"""What can be asked: every field once, from which each door is made."""
