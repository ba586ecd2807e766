"""Benchmarks as one command: find the files, fine-tune on each task over seeds, and report the scores.

prepare.py  tasks, metrics and files of each benchmark; original files -> rows of a run
suite.py    all runs of a benchmark, in order; its plan, and leaderboard files of GLUE
results.py  means, best seeds, the average of nine; text tables and report.html
"""
