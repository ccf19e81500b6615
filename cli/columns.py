"""Options that draw columns of requests, made from the declarations of the columns."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from typing import Annotated, Any

from ..traffic.additions import parse_columns
from ..traffic.request_columns import REQUEST_COLUMNS, Columns
from .declare import option
from .options import PredictDepth, Slo

_typed: Any = Annotated


def _with_declared(options: Any) -> Any:
    """The options, and another one for each column that has none yet."""
    own = {stated.name for stated in fields(options)}
    more: list[Any] = [
        (column.key, _typed[column.kind | None, option(column.help, column.metavar)], field(default=None))
        for column in REQUEST_COLUMNS
        if column.key not in own
    ]
    return make_dataclass(options.__name__, more, bases=(options,), frozen=True, kw_only=True)


@_with_declared
@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Columns that are drawn for requests: the options of every command that draws some."""

    slo: Slo = None
    predict_depth: PredictDepth = None

    def columns(self, *apart: str) -> Columns:
        """The columns as the library takes them, but for some that it takes ``apart``."""
        return parse_columns(**{key: given for key, given in vars(self).items() if key not in apart})
