"""Reads weights in formats that could run code, in a separate process and without executing anything in them."""
