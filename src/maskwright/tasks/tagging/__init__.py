"""Token classification: named entities and parts of speech (Devlin et al. 2019, section 5.3).

task.py       the task: loss, optional CRF, entity metrics, the most frequent tag as baseline
examples.py   tagged sentences as windows of subword tokens
schemes.py    tagging schemes and their spellings
"""
