"""The question of a plan as a file (``docs/plan.md``)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import Field, model_validator

from ...dse.npu.stated import DesignOptions
from ...formats import AnyPath, Strict, is_folder, is_input, parse_toml, read_toml, with_fields
from ...models import NETWORKS
from ...platforms import PLATFORMS
from ...traffic.clients import RECORDED
from ...traffic.measures import Threshold
from ..scenario import beside

SCHEMA = "fluidb.plan-scenario/1"

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0)]


def _with_options(keys: type[Strict]) -> type[Strict]:
    """The keys, with one for each option that says which designs are considered."""
    hints = get_type_hints(DesignOptions, include_extras=True)
    return with_fields(keys, {field.name: (hints[field.name], field.default) for field in fields(DesignOptions)})


@_with_options
class SpaceKeys(Strict):
    """Which designs of a board are considered: the options of ``fluidb dse``, :class:`DesignOptions`."""


class PlanScenario(Strict):
    """A scenario of ``fluidb plan``; the keys are its options."""

    schema_: Annotated[Literal["fluidb.plan-scenario/1"], Field(alias="schema")]
    network: Text
    platforms: Annotated[list[Text], Field(min_length=1)]
    require: Annotated[list[Text], Field(min_length=1)]
    rate: Positive | Annotated[list[Positive], Field(min_length=1)] | Literal["max"] | None = None
    trace: Text | None = None
    clients: Annotated[int, Field(ge=1)] | None = None
    think: Text | None = None
    slo: Text | None = None
    samples: Text | None = None
    thresholds: Annotated[list[Threshold], Field(min_length=1)] | None = None
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
        return [rate for rate in stated if isinstance(rate, float)]

    @property
    def designs(self) -> DesignOptions:
        """Which designs of a board are considered."""
        return DesignOptions(**dict(self.space))

    @model_validator(mode="after")
    def _rates_once(self) -> Self:
        if len(set(self.rates_per_s)) < len(self.rates_per_s):
            raise ValueError(f"rate: expected each rate once, found {self.rates_per_s}")
        return self


def is_plan_scenario(name: AnyPath) -> bool:
    """Whether a name is the file of a scenario."""
    path = Path(name)
    return path.suffix == ".toml" and is_input(path) and parse_toml(path).get("schema") == SCHEMA


def read_plan_scenario(name: AnyPath) -> PlanScenario:
    """Read a scenario; paths in it start from its folder."""
    file, folder = read_toml(PlanScenario, name), Path(name).parent
    given = {key: getattr(file, key) for key in ("trace", "samples")}
    from_here: dict[str, Any] = {key: str(folder / value) for key, value in given.items() if value}
    if file.think is not None and file.think.startswith(RECORDED):
        from_here["think"] = f"{RECORDED}{folder / file.think.removeprefix(RECORDED)}"
    from_here["network"] = beside(folder, file.network, NETWORKS)
    from_here["platforms"] = [
        str(folder / platform) if is_folder(folder / platform) else beside(folder, platform, PLATFORMS)
        for platform in file.platforms
    ]
    from_here["policy"] = file.policy and [str(folder / spec) if ".py:" in spec else spec for spec in file.policy]
    return file.model_copy(update=from_here)
