"""Scenarios: who is compared with whom, on what, under which traffic; as TOML files, some of which ship."""

from .scenario import DRAWN, SCENARIOS, Contender, Point, Scenario, ScenarioFile, Site, load_scenario

__all__ = ["DRAWN", "SCENARIOS", "Contender", "Point", "Scenario", "ScenarioFile", "Site", "load_scenario"]
