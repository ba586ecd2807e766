"""Token classification: named entities and parts of speech (Devlin et al. 2019, section 5.3).

task.py       the task: loss, optional CRF, entity metrics
examples.py   tagged sentences as windows of subword tokens
schemes.py    tagging schemes: BIO, BIOES, BILOU, IO
baseline.py   most frequent tag of each word
rating.py     main metric by row
report.py     report blocks
spec.py       settings
"""
