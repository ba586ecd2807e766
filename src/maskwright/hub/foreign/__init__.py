"""Weights in formats that could run code: read in a process of their own, by readers that run nothing of them."""
