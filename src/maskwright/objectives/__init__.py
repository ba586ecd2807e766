"""Training objectives: how batches are made from text, and how their losses are computed."""
