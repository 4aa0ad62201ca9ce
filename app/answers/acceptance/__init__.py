"""What was published about how many drafts a target keeps, with its source?"""
