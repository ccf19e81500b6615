"""How fluidb reads and writes files: faults, quantities, TOML, tables, whole writes.

The bottom of the house: it knows nothing of networks, boards or traffic.
"""

from .catalogue import Catalogue
from .errors import InputError
from .files import check_free, check_other, check_own_folder, read_text, write_directory, write_file
from .quantities import parse_bandwidth, parse_clock, parse_duration, parse_quantity
from .tables import Printed, Table, check_beside, read_printed, read_table, write_table
from .toml import Strict, parse_toml, read_toml, toml_inline, toml_key, validate

__all__ = [
    "Catalogue",
    "InputError",
    "Printed",
    "Strict",
    "Table",
    "check_beside",
    "check_free",
    "check_other",
    "check_own_folder",
    "parse_bandwidth",
    "parse_clock",
    "parse_duration",
    "parse_quantity",
    "parse_toml",
    "read_printed",
    "read_table",
    "read_text",
    "read_toml",
    "toml_inline",
    "toml_key",
    "validate",
    "write_directory",
    "write_file",
    "write_table",
]
