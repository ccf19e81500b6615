"""SuperNets and their SubNets by name, shipped or from the user's files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ...formats import AnyPath, Catalogue, InputError, is_input, parse_toml, read_toml, validate
from ..schema import NetworkFile
from .layout import subnet_file
from .schema import Accuracies, SubNet, SubNetsFile, SuperNetFile
from .space import parse_subnet

SUPERNETS = Catalogue("SuperNet", Path(__file__).parent, "fluidb models subnets")

FAMILIES = "fluidb.supernet/1", "fluidb.subnets/1"
"""Schemas of files that have SubNets."""


class Family(NamedTuple):
    """A SuperNet with SubNets that have names.

    Attributes
    ----------
    file : SuperNetFile
        The SuperNet.
    subnets : list of SubNet
        The SubNets of its file, or of a file of SubNets that names it.
    path : Path
        File of the SubNets, for faults.
    accuracies : Accuracies or None
        Source of their accuracies.
    source : str
        Source of the SubNets.
    supernet : Path
        The file of the SuperNet.
    """

    file: SuperNetFile
    subnets: list[SubNet]
    path: Path
    accuracies: Accuracies | None
    source: str
    supernet: Path

    def key(self, folder: Path) -> str:
        """Key of the SuperNet in a file of a folder: its name if it ships, else its path from there."""
        shipped = self.supernet.parent == SUPERNETS.folder
        return self.supernet.stem if shipped else os.path.relpath(self.supernet, folder)

    def members(self) -> list[SubNet]:
        """The SubNets that have names.

        Returns
        -------
        list of SubNet
            In the order of the file.

        Raises
        ------
        InputError
            If there are none.
        """
        if not self.subnets:
            path = self.path
            raise InputError(
                f"{path}: expected SubNets, found none; draw some: `fluidb models subnets {path} --count 7`"
            )
        return self.subnets

    def subnet(self, text: str) -> SubNet:
        """A SubNet by its name, or as a line such as ``d=0,e=0.2``.

        Parameters
        ----------
        text : str
            The name or the line.

        Returns
        -------
        SubNet
            The SubNet.

        Raises
        ------
        InputError
            If there is none; those with names are listed.
        """
        if "=" in text:
            return parse_subnet(text, f"{self.file.name}:{text}")
        for subnet in self.subnets:
            if subnet.name == text:
                return subnet
        names = ", ".join(subnet.name for subnet in self.subnets) or "none"
        raise InputError(f'{self.path}: expected one of its SubNets ({names}) or e.g. "d=0,e=0.2", found "{text}"')


def load_family(name: AnyPath) -> Family:
    """Load a SuperNet, or a file of SubNets with the SuperNet that it names.

    Parameters
    ----------
    name : str or Path
        A shipped name (``fluidb models`` lists them) or the path of a TOML file.

    Returns
    -------
    Family
        The SuperNet and its SubNets.

    Raises
    ------
    InputError
        If it is unknown, no SuperNet, or has faults; every fault has a line.
    """
    name = os.fspath(name)
    family, colon, _ = name.partition(":")
    if colon and not is_input(name):
        raise InputError(f"{name}: expected a SuperNet, found one of its SubNets; name {family}")
    shipped = {path.stem: path for path in SUPERNETS.folder.parent.glob("*.toml")}  # networks, for the fault
    path = shipped.get(name) or SUPERNETS.find(name)
    data = parse_toml(path)
    if data.get("schema") == "fluidb.subnets/1":
        listed = validate(SubNetsFile, data, path)
        of = listed.supernet
        inside = "/" in of or of.endswith(".toml")
        supernet_path = SUPERNETS.find(str(path.parent / of) if inside else of)
        whole = read_toml(SuperNetFile, supernet_path)
        return Family(whole, listed.subnets, path, listed.accuracies, listed.sources.get("subnets", ""), supernet_path)
    if data.get("schema") == "fluidb.network/1":
        raise InputError(
            f"{name}: expected a SuperNet, whose SubNets share weights, found a network; to keep weights of one "
            f"network on the chip, search a board: `fluidb dse {name} zcu104 --persistent search`"
        )
    file = validate(SuperNetFile, data, path)
    return Family(file, file.subnets, path, file.accuracies, file.sources.get("subnets", ""), path)


def is_family(name: AnyPath) -> bool:
    """Whether a SuperNet or a file of SubNets has this name."""
    if os.fspath(name) in SUPERNETS.names():
        return True
    path = Path(name)
    return path.suffix == ".toml" and is_input(path) and parse_toml(path).get("schema") in FAMILIES


def not_a_network(name: str) -> InputError:
    """Fault of a SuperNet, or of a file of SubNets, in place of a network."""
    return InputError(
        f"{name}: expected a network, found a SuperNet; name a SubNet of it (`fluidb models subnets {name}`)"
    )


def find_subnet(name: str) -> tuple[NetworkFile, Path] | None:
    """The network of a name such as ``ofa_resnet50:A``, and its SuperNet's file; ``None`` if that names no SubNet."""
    family, colon, text = name.partition(":")
    if is_input(name) or not (colon or family in SUPERNETS.names()):
        return None
    if not colon:
        raise not_a_network(name)
    loaded = load_family(family)
    return subnet_file(loaded.file, loaded.subnet(text), loaded.path), loaded.path
