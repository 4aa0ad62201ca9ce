"""What a record of a serving engine consists of; the records stand beside this folder."""
