"""One file for each family of checkpoints: nothing but tables (see `hub.family`)."""
