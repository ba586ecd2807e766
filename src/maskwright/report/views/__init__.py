"""One function per block type: block in, HTML out. `page.py` has the dispatch table."""
