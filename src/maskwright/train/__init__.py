"""The training loop, optimizer, schedules, checkpoints and run folders; a package for each kind of training."""
