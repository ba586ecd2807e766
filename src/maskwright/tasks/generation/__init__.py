"""Text-to-text generation with a causal language model (Radford et al. 2018 and 2019).

task.py     the task: source, delimiter and target as one sequence; greedy generation
scores.py   ROUGE
report.py   report blocks
spec.py     settings
"""
