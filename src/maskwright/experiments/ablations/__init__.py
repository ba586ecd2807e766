"""The ablations of the BERT paper at a small size: run.py trains and scores, results.py writes table and plot."""
