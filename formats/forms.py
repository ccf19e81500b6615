"""Forms of texts, such as names, which faults say in words."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from pydantic import AfterValidator

from .errors import InputError
from .toml import shown


class Form(NamedTuple):
    """A form that a text must have."""

    pattern: str  # regular expression that the whole text matches
    words: str  # the same for a reader: ``"1 to 80 letters"``

    @classmethod
    def name(cls, marks: str, longest: int) -> Self:
        """The form of a name: letters, digits and these marks.

        Examples
        --------
        >>> Form.name("_-", 40).words
        '1 to 40 letters of a to z or A to Z, digits and any of _ -'
        """
        words = f"1 to {longest} letters of a to z or A to Z, digits and any of {' '.join(marks)}"
        return cls(f"[A-Za-z0-9{re.escape(marks)}]{{1,{longest}}}", words)

    def plain(self, text: str) -> str:
        """A text as such a name: ``_`` in place of every other character, and cut to its length.

        Examples
        --------
        >>> Form.name("_.", 8).plain("Test 1/conv.2")
        'Test_1_c'
        """
        name = "".join(char if re.fullmatch(self.pattern, char) else "_" for char in text) or "_"
        longest = re.match(self.pattern, name)
        assert longest is not None  # every character fits
        return longest[0]

    @property
    def validator(self) -> AfterValidator:
        """The check of a field, for ``Annotated[str, ...]``."""
        return AfterValidator(self.check)

    def check(self, text: str, *, where: str = "") -> str:
        """Refuse a text of another form; ``where`` begins the fault: ``"name: "``."""
        if not re.fullmatch(self.pattern, text):
            raise InputError(f"{where}expected {self.words}, found {shown(text)}")
        return text
