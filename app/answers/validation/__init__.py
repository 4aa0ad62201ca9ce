"""What does `validate` answer? Predictions beside what was measured."""
