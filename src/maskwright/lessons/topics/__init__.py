"""The lessons, a module for each topic with a tuple LESSONS. Numbers come from the toolkit's functions alone."""
