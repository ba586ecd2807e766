"""Training in several processes: who they are, how they agree, how gradients are added up, how failures end all."""
