"""How a layer reads the maps of its inputs."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """How a layer reads the map of one group of its inputs, [channel][height][width] in memory.

    Pairs are of rows and columns. Whatever lies beyond the map is 0.
    """

    channels: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    outputs: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)  # above and to the left
    dilation: tuple[int, int] = (1, 1)
    in_rows: bool = False  # the inputs of each row follow one another along P, as in a pool of whole maps

    @classmethod
    def of_product(cls, R: int, P: int) -> Window:
        """The window of a bare product, whose inputs are [P][R]."""
        return cls(P, (1, R), (1, 1), (1, R))

    @property
    def R(self) -> int:
        """Rows of the product: output positions."""
        return self.outputs[0] * self.outputs[1]

    @property
    def P(self) -> int:
        """Inner dimension of the product."""
        return self.channels * self.kernel[0] * self.kernel[1]

    @property
    def words(self) -> int:
        """Words of the map."""
        return self.channels * self.size[0] * self.size[1]

    @property
    def along_P(self) -> bool:
        """True if each row takes its inputs in order, or the only row the whole map."""
        whole = self.R == 1 and self.kernel == self.size and not any(self.pad)
        apart = any(n > 1 < d for n, d in zip(self.kernel, self.dilation, strict=True))
        return self.in_rows or (whole and not apart)

    @property
    def joined(self) -> bool:
        """True if the inputs of all rows follow one another, from one line of the map to the next."""
        if self.in_rows:
            return False
        return self.along_P or (self.R > 1 and self.stride == (1, 1) and self.outputs[1] == self.size[1])

    @property
    def source(self) -> tuple[int, int]:
        """Line and stride of the layer, as :class:`fluidb.models.Layer` has them."""
        if self.in_rows:
            return 1, 0
        return (0, 1) if self.joined else (self.outputs[1], self.stride[1])
