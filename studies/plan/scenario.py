"""The question of a plan as a file (``docs/plan.md``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ...dse.npu.choices import MAX_DESIGN_BATCH
from ...formats import AnyPath, Strict, is_input, parse_toml, read_toml
from ...models import NETWORKS
from ...platforms import PLATFORMS
from ..scenario import beside

SCHEMA = "fluidb.plan-scenario/1"

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0)]


class SpaceKeys(Strict):
    """Which designs of a board are considered: the options of ``fluidb dse``."""

    batching: Literal["fluid", "row", "column", "fc", "none"] = "fluid"
    stacking: bool = True
    overlap: Literal["tiles", "ideal", "paper"] = "tiles"
    b_max: Annotated[int, Field(ge=1, le=MAX_DESIGN_BATCH)] = 8
    bandwidth: str | None = None
    int8: bool = False
    pixels: str | None = None
    max_dsp: str | None = None
    max_ram: str | None = None
    max_lut: str | None = None


class PlanScenario(Strict):
    """A scenario of ``fluidb plan``; the keys are its options."""

    schema_: Annotated[Literal["fluidb.plan-scenario/1"], Field(alias="schema")]
    network: Text
    platforms: Annotated[list[Text], Field(min_length=1)]
    require: Annotated[list[Text], Field(min_length=1)]
    rate: Positive | Annotated[list[Positive], Field(min_length=1)] | Literal["max"] | None = None
    trace: Text | None = None
    slo: Text | None = None
    samples: Text | None = None
    thresholds: Annotated[list[float], Field(min_length=1)] | None = None
    policy: Annotated[list[Text], Field(min_length=1)] | None = None
    minimise: Literal["dsps", "share", "energy"] = "dsps"
    over_p99: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**62)] = 0
    seeds: Annotated[int, Field(ge=2, le=1000)] = 5
    count: Annotated[int, Field(ge=100, le=10**7)] = 20_000
    space: SpaceKeys = SpaceKeys()

    @property
    def rates_per_s(self) -> list[float]:
        """The rates that it states."""
        stated = self.rate if isinstance(self.rate, list) else [self.rate]
        return [item for item in stated if isinstance(item, float)]

    @model_validator(mode="after")
    def _rates_once(self) -> Self:
        if len(set(self.rates_per_s)) < len(self.rates_per_s):
            raise ValueError(f"rate: expected each rate once, found {self.rates_per_s}")
        return self


def is_plan_scenario(name: AnyPath) -> bool:
    """Whether a name is that of a scenario's file."""
    path = Path(name)
    return path.suffix == ".toml" and is_input(path) and parse_toml(path).get("schema") == SCHEMA


def read_plan_scenario(name: AnyPath) -> PlanScenario:
    """Read a scenario; paths in it start from its folder.

    Parameters
    ----------
    name : str or Path
        The file.

    Returns
    -------
    PlanScenario
        With paths that start from here.

    Raises
    ------
    InputError
        If it has faults; each has a line.
    """
    file, folder = read_toml(PlanScenario, name), Path(name).parent
    found: dict[str, Any] = {key: str(folder / value) for key in ("trace", "samples") if (value := getattr(file, key))}
    found["network"] = beside(folder, file.network, NETWORKS)
    found["platforms"] = [
        str(folder / item) if (folder / item).is_dir() else beside(folder, item, PLATFORMS) for item in file.platforms
    ]
    found["policy"] = file.policy and [str(folder / item) if ".py:" in item else item for item in file.policy]
    return file.model_copy(update=found)
