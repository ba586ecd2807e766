"""File formats: opening and decompressing files, records, table cells, column mapping.

A labeled-file format is a reader of `text.readers`; a new container of records, such as a spreadsheet, belongs here.
"""
