"""Benchmarks as one command: find the files, fine-tune on each task over seeds, and write what was measured.

parts.py    which tasks, numbers and files a benchmark has     prepare.py   original files -> rows of a run
sources.py  which of them lie in a folder                      suite.py     all runs of a benchmark, in order
results.py  means, best seeds, the average of nine             tables.py    the same as text, beside published rows
submit.py   leaderboard files of GLUE                          page.py      report.html
"""
