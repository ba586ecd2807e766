"""Benchmarks as one command: find the files, fine-tune on each task over seeds, and report the scores.

parts.py    tasks, metrics and files of each benchmark      prepare.py   original files -> rows of a run
sources.py  finds the files in a folder                     suite.py     all runs of a benchmark, in order
results.py  means, best seeds, the average of nine          tables.py    results and published scores as text
submit.py   leaderboard files of GLUE                       page.py      report.html
"""
