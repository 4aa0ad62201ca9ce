"""What do options ask about? From options and files to a configuration, its drafters and their
acceptance.
"""
