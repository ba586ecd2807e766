"""One function per kind of block: content in, HTML out. `page.py` holds the table that finds them."""
