"""Floor 6: what a run costs (`plan`), and how fast this machine runs a model (`bench`)."""
