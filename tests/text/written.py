"""Files for tests of readers, written as their names say, and the memory that reading takes."""

import csv
import gzip
import io
import json
import lzma
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}


def write(folder, name, content):
    """Write bytes, text, or rows (a list of objects) as a table or lines of JSON, packed; returns the path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    packing = path.suffix if path.suffix in PACKERS else ""
    if isinstance(content, list):
        content = table_bytes(content, name.removesuffix(packing).rpartition(".")[2].lower())
    path.write_bytes(PACKERS[packing](content.encode() if isinstance(content, str) else content))
    return path


def table_bytes(rows, kind):
    if kind == "parquet":
        stream = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), stream)
        return stream.getvalue()
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == "json":
        return json.dumps(rows, indent=1).encode()
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]), delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue().encode()


def peak_of(work):
    """What `work` returns, and the most bytes of Python's memory that it took."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
