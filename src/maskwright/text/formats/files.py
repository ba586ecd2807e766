"""Opens user-specified inputs: plain or compressed files, folders, glob patterns, standard input; and reads lines.

Everything is streamed, so memory use does not depend on file size. A line has its number as in an editor, and an error
if it has invalid UTF-8, a NUL byte, or more than `MAX_LINE_BYTES`. Only a line feed ends a line; a carriage return
before it and a byte order mark at the start of the file are dropped.
"""

from __future__ import annotations

import glob
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from ...core.errors import InputError, MissingExtraError, MissingFileError, StorageError

STDIN = "-"
HUB = "hub:"
MAX_LINE_BYTES = 16 << 20
FORMATS = {
    ".txt": "txt",
    ".text": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
Meter = Callable[[int], None]
PACKINGS = (".gz", ".xz", ".zst")
_REFUSED = {
    **dict.fromkeys((".zip", ".tar", ".tgz", ".bz2", ".7z", ".rar"), "decompress it first, or use .gz, .xz or .zst"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as .csv"),
    **dict.fromkeys((".doc", ".docx", ".pdf", ".odt", ".html", ".epub"), "save it as plain text (.txt)"),
}
_MAGIC = {
    b"\x1f\x8b": "compressed with gzip: rename it to .gz",
    b"\xfd7zXZ\x00": "compressed with xz: rename it to .xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: rename it to .zst",
    b"PAR1": "a Parquet file: rename it to .parquet",
    b"PK\x03\x04": "a zip archive: decompress it first",
    b"BZh": "compressed with bzip2: decompress it first",
    b"%PDF-": "a PDF: save it as plain text",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}
_SAMPLE_BYTES = 8192
_LINES_PER_REPORT = 256
_BUFFER_BYTES = 128 << 10
_ZSTD_SLICE_BYTES = 2048  # bounds the decompressed size of a slice (64 MB)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\v\b\x1b")) + b"\x7f"


class Line(NamedTuple):
    """One physical line: number (from 1), text without the line end, and error (or None).

    The text of an invalid line is only used to keep track of open quotes.
    """

    number: int
    text: str
    fault: str | None


def expand(source: str | Path | Sequence[str | Path], formats: Collection[str]) -> list[str]:
    """Expand `source` to a list of files: files, folders, glob patterns, `-`, `hub:...`, or a list of these.

    A folder yields all non-hidden files below it with a format in `formats`, sorted by path; a pattern yields all
    matching files, sorted. Duplicates are removed. Raises MissingFileError, InputError.
    """
    entries = [source] if isinstance(source, (str, Path)) else list(source)
    if not entries:
        raise InputError("No input file was specified.")
    found: dict[str, str] = {}
    for entry in map(str, entries):
        for name in _expand_one(entry, formats):
            special = name == STDIN or name.startswith(HUB)
            found.setdefault(name if special else os.path.realpath(name), name)
    return list(found.values())


def _expand_one(entry: str, formats: Collection[str]) -> list[str]:
    path = Path(entry)
    if entry == STDIN or entry.startswith(HUB):
        return [entry]
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path))]
        names = sorted(str(file) for file in files if _known_format(file) in formats)
        if not names:
            endings = ", ".join(ending for ending, kind in FORMATS.items() if kind in formats)
            raise InputError(f"Folder {entry} contains no readable file ({endings}, plain or {', '.join(PACKINGS)}).")
        return names
    if path.exists():
        return [entry]
    if glob.has_magic(entry):
        names = sorted(name for name in glob.glob(entry, recursive=True) if Path(name).is_file())  # noqa: PTH207
        if not names:
            raise MissingFileError(f"No file matches {entry}.")
        return names
    raise MissingFileError(f"{entry} does not exist.")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def bare_suffix(path: Path | str) -> str:
    """Returns the suffix that determines the format, ignoring compression: `.csv` for `a.csv.gz`."""
    path = Path(path)
    if path.suffix.lower() in PACKINGS:
        path = path.with_suffix("")
    return path.suffix.lower()


def _known_format(path: Path | str) -> str | None:
    return FORMATS.get(bare_suffix(path))


def file_format(path: Path | str, default: str | None = None) -> str:
    """Returns the format by file name: "txt", "csv", "tsv", "jsonl", "parquet"; `default` for any other.

    A .json file is "jsonl" too: `records` reads its array of objects. (FORMATS lacks it, because a folder of text often
    contains settings in .json.)

    Raises InputError for a suffix known to be unsupported, or an unknown one if there is no default.
    """
    suffix = bare_suffix(path)
    if default is None and str(path) == STDIN:
        raise InputError("Standard input has no file name to determine its format: specify a file with labeled rows.")
    if suffix in FORMATS:
        return FORMATS[suffix]
    if suffix == ".json":
        return "jsonl"
    if suffix in _REFUSED:
        raise InputError(f"{path} cannot be read directly: {_REFUSED[suffix]}.")
    if default is None:
        endings = ", ".join(dict.fromkeys(FORMATS))
        raise InputError(f"Unknown file format of {path}: use {endings}, plain or compressed.")
    return default


def open_bytes(path: Path | str) -> io.BufferedReader[_Source]:
    """Open the decompressed bytes of a file (`-`: standard input); the caller closes it.

    Raises MissingFileError, StorageError (no permission, disk error), MissingExtraError (zstd) and, while reading,
    InputError if compressed data is truncated or damaged.
    """
    if str(path) == STDIN:
        return io.BufferedReader(_Source(sys.stdin.buffer, "Standard input", keep_open=True), _BUFFER_BYTES)
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: specify a file.")
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    suffix = path.suffix.lower()
    if suffix not in PACKINGS:
        return io.BufferedReader(_Source(handle, str(path)), _BUFFER_BYTES)
    unpack: dict[str, Callable[[IO[bytes]], Any]] = {".gz": _gzip, ".xz": lzma.LZMAFile, ".zst": _zstd}
    return io.BufferedReader(_Source(unpack[suffix](handle), str(path), packed=handle), _BUFFER_BYTES)


def read_lines(path: Path | str, meter: Meter | None = None) -> Iterator[Line]:
    """Yields the physical lines of a text file; `meter` is called periodically with the number of bytes read.

    Raises InputError if the file is not text.
    """
    with open_bytes(path) as handle:
        reject_binary(handle.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES], path)
        number = 0
        while raw := handle.readline(MAX_LINE_BYTES + 1):
            number += 1
            if meter is not None and number % _LINES_PER_REPORT == 0:
                meter(handle.raw.position())
            if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                yield _skip_long_line(handle, raw, number)
            else:
                yield _decode(raw, number)


def read_source_lines(path: Path | str) -> Iterator[Line]:
    """Like `read_lines`, but keeps line ends and byte order mark so that characters can be counted. Invalid UTF-8 bytes
    count as U+FFFD and the line has an error. Raises InputError for a line longer than MAX_LINE_BYTES.
    """
    with open_bytes(path) as handle:
        reject_binary(handle.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES], path)
        number = 0
        while raw := handle.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raise InputError(f"{path}:{number}: the line has more than {MAX_LINE_BYTES:,} bytes: split it.")
            yield Line(number, raw.decode("utf-8", errors="replace"), _decode(raw, number).fault)


def reject_binary(sample: bytes, path: Path | str) -> None:
    """Raise InputError if the first bytes of a file show that it is not UTF-8 text.

    Known file types are named. Otherwise more than a tenth, and at least 32, of the bytes must be control characters
    or invalid UTF-8; with fewer, the affected lines are reported individually.
    """
    for magic, kind in _MAGIC.items():
        if sample.startswith(magic):
            raise InputError(f"{path} is {kind}.")
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls >= 32 and controls * 10 > len(sample):
        raise InputError(f"{path} is not a text file: it contains binary data.")
    strange = sample.decode("utf-8", errors="replace").count("\ufffd") - sample.count(b"\xef\xbf\xbd")
    if strange >= 32 and strange * 10 > len(sample):
        raise InputError(f"{path} is not UTF-8 text: convert it first, for example with iconv -t UTF-8.")


def _decode(raw: bytes, number: int) -> Line:
    fault = None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"byte {error.start + 1} of the line (0x{raw[error.start]:02x}) is not valid UTF-8"
        text = raw.decode("utf-8", errors="replace")
    if "\0" in text and fault is None:
        fault = f"character {text.index(chr(0)) + 1} of the line is a NUL byte"
    if number == 1:
        text = text.removeprefix("\ufeff")
    return Line(number, text.removesuffix("\n").removesuffix("\r"), fault)


def _skip_long_line(handle: IO[bytes], raw: bytes, number: int) -> Line:
    """Skip to the end of a line beyond the limit; the returned text keeps track of open quotes."""
    size, quotes = len(raw), raw.count(b'"')
    while not raw.endswith(b"\n") and (raw := handle.readline(_BUFFER_BYTES)):
        size += len(raw)
        quotes += raw.count(b'"')
    return Line(number, '"' * (quotes % 2), f"the line has {size:,} bytes; at most {MAX_LINE_BYTES:,} are read")


# -- decompression -----------------------------------------------------------------------------------------


class _Source(io.RawIOBase):
    """A byte source whose errors name the file."""

    def __init__(self, inner: Any, name: str, packed: IO[bytes] | None = None, keep_open: bool = False) -> None:
        self.inner, self.name, self.packed, self.keep_open = inner, name, packed, keep_open
        self._read = getattr(inner, "read1", inner.read)
        self._delivered = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with the result of one read; 0 at the end."""
        try:
            data = self._read(len(buffer))
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, _ZstdDamageError) as error:
            raise InputError(f"{self.name} is truncated or damaged ({error}): download or compress it again.") from None
        except OSError as error:
            raise StorageError(f"{self.name} cannot be read: {error.strerror or error}.") from error
        buffer[: len(data)] = data
        self._delivered += len(data)
        return len(data)

    def position(self) -> int:
        """Number of bytes read so far from the file on disk."""
        return self._delivered if self.packed is None else self.packed.tell()

    def close(self) -> None:
        """Close the file unless keep_open is set."""
        if not self.closed and not self.keep_open:
            self.inner.close()
            if self.packed is not None:
                self.packed.close()
        super().close()


class _ZstdDamageError(Exception):
    """A zstd file is damaged."""


def _gzip(handle: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=handle, mode="rb")


def _zstd(handle: IO[bytes]) -> _ZstdSource:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("Reading .zst files", "data") from None
    return _ZstdSource(handle, zstandard)


class _ZstdSource:
    """Reads consecutive zstd frames; unlike the library's reader it detects a truncated frame."""

    def __init__(self, handle: IO[bytes], library: Any) -> None:
        self.handle, self.library = handle, library
        self.frame: Any = None
        self.packed, self.plain, self.given = b"", b"", 0  # `given` bytes of `plain` were returned

    def read(self, size: int) -> bytes:
        """Returns at most `size` bytes; none at the end."""
        while self.given == len(self.plain):
            if not self.packed:
                self.packed = self.handle.read(_BUFFER_BYTES)
                if not self.packed:
                    if self.frame is not None:
                        raise EOFError("the last frame is incomplete")
                    return b""
            self._unpack_slice()
        data = self.plain[self.given : self.given + size]
        self.given += len(data)
        return data

    def _unpack_slice(self) -> None:
        piece, self.packed = self.packed[:_ZSTD_SLICE_BYTES], self.packed[_ZSTD_SLICE_BYTES:]
        if self.frame is None:
            self.frame = self.library.ZstdDecompressor().decompressobj()
        try:
            self.plain, self.given = self.frame.decompress(piece), 0
        except self.library.ZstdError as error:
            raise _ZstdDamageError(str(error)) from None
        if self.frame.eof:
            self.packed = self.frame.unused_data + self.packed
            self.frame = None

    def close(self) -> None:
        """Release buffers; the file belongs to the caller."""
        self.packed, self.plain, self.given = b"", b"", 0
