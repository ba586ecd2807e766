"""Files of object stores and local disks: pyarrow's file systems, and those of fsspec packages that are installed.

Credentials come from the environment. pyarrow is imported on use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import InputError, MissingExtraError, MissingFileError, StorageError


def is_remote(uri: str) -> bool:
    """Whether this is an address, not a local path."""
    return "://" in uri


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Turn an error of an object store, such as missing rights, into StorageError."""
    try:
        yield
    except (StorageError, FileNotFoundError):
        raise
    except OSError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StorageError(f"{uri}: {reason}. Check the address, the credentials and their rights.") from None


def file_system(uri: str) -> tuple[Any, str]:
    """The pyarrow file system of an address or a local path, and the path there.

    Raises InputError for an address of no known kind.
    """
    try:
        from pyarrow import fs
    except ImportError:
        raise MissingExtraError("Reading object stores", "data") from None
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return fs.LocalFileSystem(), os.fspath(Path(uri).absolute())
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if scheme == "s3" and endpoint:  # another store than Amazon's, such as MinIO; pyarrow reads no such variable
        return fs.S3FileSystem(endpoint_override=endpoint), rest
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
        return found
    except (ValueError, OSError) as error:  # no scheme of pyarrow, or no connection or library of it
        try:
            import fsspec

            return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme))), rest
        except (ImportError, ValueError):
            if isinstance(error, OSError):
                with storage_errors(uri):
                    raise error from None
            raise InputError(
                f"{uri} has an address of an unknown kind: install the fsspec package of '{scheme}', or use s3://, "
                "gs://, abfs://, hdfs:// or a local path."
            ) from None


@contextmanager
def reading(uri: str) -> Iterator[Any]:
    """The stream of a file. Raises MissingFileError, and StorageError without rights or connection."""
    system, path = file_system(uri)
    with storage_errors(uri):
        try:
            stream = system.open_input_stream(path)
        except FileNotFoundError:
            raise MissingFileError(f"{uri} does not exist.") from None
        with stream:
            yield stream
