"""Reading files, whole and up to a bound."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import InputError

AnyPath = str | os.PathLike[str]
"""The path of a file or of a folder, as a text or as an object."""

MAX_BYTES = 16 * 2**20
"""A larger text file is refused: a file that a person wrote is far smaller."""


def unreadable(path: AnyPath, error: OSError) -> InputError:
    """The fault of a file that the system refuses to read."""
    if Path(path).is_dir():
        return InputError(f"{path}: expected a file, found a folder; name the file")
    return InputError(f"{path}: could not be read ({error.strerror or error})")


def read_bytes(path: AnyPath, max_bytes: int, hint: str = "", missing: str = "") -> bytes:
    """A file, whole.

    Parameters
    ----------
    path : str or Path
        An existing file.
    max_bytes : int
        Most bytes to read; a larger file is refused.
    hint : str
        Remedy for a larger file, for the fault.
    missing : str
        The fault if there is no such file, in place of the system's words.

    Returns
    -------
    bytes
        Its content.

    Raises
    ------
    InputError
        If it cannot be read or is too large.
    """
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(max_bytes + 1)
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            raise InputError(f"{path}: {missing}") from None
        raise unreadable(path, error) from error
    if len(raw) > max_bytes:
        raise InputError(f"{path}: expected at most {max_bytes / 2**20:.0f} MiB, found more{hint}")
    return raw


def read_text(path: AnyPath) -> str:
    """A text file, whole.

    Parameters
    ----------
    path : str or Path
        An existing file.

    Returns
    -------
    str
        Its content, line ends as they are.

    Raises
    ------
    InputError
        If it cannot be read, is larger than :data:`MAX_BYTES`, or is no UTF-8.
    """
    raw = read_bytes(path, MAX_BYTES)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected UTF-8 text, found byte 0x{raw[error.start]:02x} at {error.start}"
        ) from error


def check_folder(folder: AnyPath, expected: str, otherwise: str) -> None:
    """Refuse a folder to read that is none.

    Parameters
    ----------
    folder : str or Path
        The folder that the user named.
    expected : str
        Its expected content, for the fault.
    otherwise : str
        Remedy, for the fault.

    Raises
    ------
    InputError
        If it is a file, or not there.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: expected {expected}, found {'a file' if folder.exists() else 'none'}; {otherwise}")
