"""Checks of training data, labels, model folders and the installation."""
