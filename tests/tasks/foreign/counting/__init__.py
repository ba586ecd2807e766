"""A task of another package: predicts a count for each text."""
