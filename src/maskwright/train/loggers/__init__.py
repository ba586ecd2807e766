"""The log of a run, written for other programs too: one file for each, registered as "logger"."""
