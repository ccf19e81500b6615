"""Files that are to be CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import InputError
from .files import AnyPath


@contextmanager
def as_csv(path: AnyPath, reader: Any) -> Iterator[None]:
    """Make a fault with its line of what a reader of the module csv does not take."""
    try:
        yield
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: expected CSV, found none ({error})") from None
