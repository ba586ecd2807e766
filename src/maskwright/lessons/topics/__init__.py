"""A module for each topic, with a function for each lesson. Numbers come from the toolkit's functions alone."""
