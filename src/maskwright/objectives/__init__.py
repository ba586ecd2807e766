"""Floor 3: what a model is asked to learn from raw text: how a batch is made from it, and what is lost on it."""
