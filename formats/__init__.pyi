from .arrays import Arrays as Arrays, check_labels as check_labels, open_arrays as open_arrays
from .catalogue import Catalogue as Catalogue, as_loaded as as_loaded
from .display import brief as brief, first_rows as first_rows
from .errors import InputError as InputError
from .extras import check_installed as check_installed
from .extras import is_installed as is_installed
from .forms import Form as Form
from .near import did_you_mean as did_you_mean
from .files import (
    AnyPath as AnyPath,
    check_folder as check_folder,
    is_folder as is_folder,
    is_input as is_input,
    keep_pipes as keep_pipes,
    open_input as open_input,
    read_bytes as read_bytes,
    read_text as read_text,
    unreadable as unreadable,
)
from .destinations import (
    OwnFolder as OwnFolder,
    check_free as check_free,
    check_named as check_named,
    check_resumable as check_resumable,
)
from .outputs import (
    STANDARD_OUTPUT as STANDARD_OUTPUT,
    held as held,
    make_folder as make_folder,
    tidy as tidy,
    together as together,
    write_directory as write_directory,
    write_file as write_file,
)
from .quantities import (
    parse_bandwidth as parse_bandwidth,
    parse_duration as parse_duration,
    parse_numbers as parse_numbers,
    parse_quantity as parse_quantity,
    read_number as read_number,
)
from .tables import (
    JsonRecord as JsonRecord,
    Table as Table,
    check_beside as check_beside,
    read_printed as read_printed,
    read_table as read_table,
    table_text as table_text,
    write_table as write_table,
)
from .toml import (
    SparseRecord as SparseRecord,
    Strict as Strict,
    by_name as by_name,
    memoized as memoized,
    parse_toml as parse_toml,
    read_toml as read_toml,
    shown as shown,
    toml_inline as toml_inline,
    toml_lines as toml_lines,
    validate as validate,
    with_fields as with_fields,
)
