"""Floor 5: looking inside a model: how far gradients reach, what a cell of a recurrent network tells."""
