"""Decoding: token selection rules, sampling, and beam search, independent of the network."""
