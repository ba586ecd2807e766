"""Translation with an encoder-decoder (Vaswani et al. 2017).

task.py         the task: teacher forcing, beam search
examples.py     sources and targets as packed examples
alignments.py   word alignments from cross-attention
scores.py       BLEU and chrF
report.py       report blocks
spec.py         settings and defaults
"""
