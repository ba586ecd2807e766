"""Extractive question answering (SQuAD; Devlin et al. 2019, sections 4.2 and 4.3)."""
