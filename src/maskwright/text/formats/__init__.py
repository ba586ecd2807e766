"""File formats: opening and decompressing files, records, table cells, column mapping."""
