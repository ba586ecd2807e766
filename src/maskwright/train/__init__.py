"""Floor 5: the training loop, optimiser, checkpoints, run folders and their report."""
