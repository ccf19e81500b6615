"""Names that a network file allows."""

from __future__ import annotations

from ..schema import NAME, NAME_LENGTH


class LayerNames:
    """Unique names of layers: a second ``conv`` becomes ``conv.2``."""

    def __init__(self) -> None:
        self._taken = {"input"}  # the sample itself
        self._count: dict[str, int] = {}

    def give(self, text: str) -> str:
        """Return the name of one more layer."""
        name = plain = NAME.plain(text)
        while name in self._taken:
            self._count[plain] = self._count.get(plain, 1) + 1
            ending = f".{self._count[plain]}"
            name = plain[: NAME_LENGTH - len(ending)] + ending
        self._taken.add(name)
        return name
