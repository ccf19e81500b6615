"""A policy with its parameters, as a user writes it: ``fluid``, ``adaptb:timeout=M``, ``my/file.py:mine:x=1``."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..formats import InputError, did_you_mean, is_input, read_bytes, read_number
from ..formats.array_types import Floats
from ..jit import uncompiled
from .admission import Admission, parse_admission
from .deadlines import ON_DEADLINE, SERVE
from .policies import POLICIES, Policy, choice, duration
from .state import BETWEEN, DISPATCH

LIMITS = ("b_max", "lanes")
"""Parameters of every policy that are whole numbers."""

COMMON = ("call", *LIMITS, "on_deadline", "admit", "between", "dispatch", "together", "debug")
"""Parameters of every policy; ``call`` is the time of a scheduler call."""

MAX_SOURCE = 2**24
"""Bytes of a policy's file; a larger one is no program."""

_SPEC = re.compile(r"(?:(?P<path>.*\.py):)?(?P<name>[^:]+)(?::(?P<parameters>.*))?")


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A policy with the parameters that the user wrote.

    Attributes
    ----------
    spec : str
        As the user wrote it.
    policy : Policy
        The policy.
    texts : dict of str to str
        The policy's own parameters, as texts.
    call_s : float
        Time of a scheduler call while samples are on the NPU.
    b_max : int or None
        Largest batch, if smaller than the latency table's.
    lanes : int
        Largest number of batches that run side by side; a device may have fewer lanes.
    on_deadline : int
        What happens to a request at its deadline: it is served all the same, dropped, or answered by the last exit that
        it passed (:data:`.deadlines.ON_DEADLINE`).
    admit : Admission or None
        Which requests are refused at their arrival; ``None`` if none is.
    between : int or None
        Whose turn it is of several networks (:data:`.state.BETWEEN`); ``None`` if the user wrote nothing.
    dispatch : int or None
        Which of several cores serves a request (:data:`.state.DISPATCH`), if the policy states it.
    together : bool
        Whether the samples of a batch, and of those that merge with it, return when the last of them has its answer.
    source : bytes or None
        Content of the file that the policy was loaded from, if it is a user's.
    debug : bool
        Whether it runs as plain Python, and what it reads and writes is checked (:mod:`.watch`).
    """

    spec: str
    policy: Policy
    texts: Mapping[str, str]
    call_s: float = 0.0
    b_max: int | None = None
    lanes: int = 1
    on_deadline: int = SERVE
    admit: Admission | None = None
    between: int | None = None
    dispatch: int | None = None
    together: bool = False
    source: bytes | None = field(default=None, repr=False)
    debug: bool = False

    def __reduce__(self) -> tuple[Callable[[str, bytes | None], Scheduler], tuple[str, bytes | None]]:
        return _remade, (self.spec, self.source)  # a compiled decision cannot travel; it is compiled where it runs

    def in_batches(self, b_max: int) -> Scheduler:
        """The same with batches up to a size."""
        return replace(self, spec=with_parameter(self.spec, "b_max", b_max), b_max=b_max)

    def settings(self, slo_s: float | None) -> Floats:
        """The parameters as the policy's ``decide`` gets them (see :meth:`Policy.settings`)."""
        return self.policy.settings(self.texts, slo_s)


def losses_of(scheduler: Scheduler, *limits: Admission) -> dict[str, object]:
    """What is known of requests without an answer under a policy: nothing (``None``) where all are served.

    ``limits`` are those that networks state beside the policy.
    """
    late, rules = scheduler.on_deadline or None, [*filter(None, (scheduler.admit, *limits))]
    newer = [rule for rule in rules if rule.newest] or None
    refusing = [rule for rule in rules if not rule.newest] or None
    return {"refused": refusing, "dropped": late or newer, "early": late, "accuracy_of_all": late or rules or None}


def with_parameter(spec: str, key: str, value: object) -> str:
    """The text of a policy with one parameter more."""
    parameters = _SPEC.fullmatch(spec)
    joined = "," if parameters is not None and parameters["parameters"] else ":"
    return f"{spec.removesuffix(':')}{joined}{key}={value}"


def _from_file(path: Path, name: str) -> Policy:
    """A policy of a user, from a Python file outside of the package."""
    if not os.path.isfile(path):  # noqa: PTH113  Path.is_file fails where a name is too long
        other = "a pipe" if is_input(path) else "none"
        raise InputError(f"policy: {path}: expected a Python file, found {other}; give the path of a regular file")
    spec = importlib.util.spec_from_file_location(f"fluidb_policy_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # numba's cache looks a function's module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"policy: {path}: could not be loaded: {type(error).__name__}: {_brief(error)}") from error
    named = getattr(module, name, None)
    if isinstance(named, Policy):
        return named
    if callable(named):
        return Policy(named, work_conserving=False)
    names = [key for key, value in vars(module).items() if isinstance(value, Policy)]
    raise InputError(
        f'policy: {path}: expected a Policy or a decide function named "{name}", found none'
        + (f"; it has {', '.join(names)}" if names else "")
    )


def _brief(error: BaseException) -> str:
    """Message of an exception on one line: of numba's pages of colour, the cause and the line of the policy."""
    said = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()
    told = [line for line in said if line.strip() and not line.startswith("Failed in nopython mode")]
    place = [f"({line.rstrip(':')})" for line in told[1:] if line.startswith("File ")]
    return " ".join([*told[:1], *place[:1]])


def _remade(spec: str, source: bytes | None) -> Scheduler:
    """A scheduler in another process, possibly on a machine without the user's file: it is written there again."""
    if source is None:
        return find_policy(spec)
    own, _, rest = spec.rpartition(".py:")
    folder = Path(tempfile.mkdtemp(prefix="fluidb-policy-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{Path(own).name}.py"
    path.write_bytes(source)
    try:
        return replace(find_policy(f"{path}:{rest}"), spec=spec)
    except InputError as error:
        raise InputError(
            f"{fault.replace(str(path), f'{own}.py')} (on a worker, which gets that file and no other)"
            for fault in error.faults
        ) from None


def find_policy(spec: str) -> Scheduler:
    """Read a policy and its parameters.

    Parameters
    ----------
    spec : str
        ``NAME`` or ``NAME:key=value,key=value``, with a name of :data:`POLICIES`
        or ``path/to/file.py:NAME``.

    Returns
    -------
    Scheduler
        The policy and its parameters.

    Raises
    ------
    InputError
        If there is no such policy or parameter.

    Examples
    --------
    >>> find_policy("lazy:call=50us,b_max=4").b_max
    4
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise InputError(f'policy: expected NAME or NAME:key=value,..., found "{spec}"')
    path, name, parameters = match.groups()
    texts = _texts(parameters or "", spec)
    debug, together = (choice(key, "off", "on")(texts.pop(key, "off"), None) > 0 for key in ("debug", "together"))
    if path is not None:
        with uncompiled() if debug else contextlib.nullcontext():
            policy = _from_file(Path(path), name)
        source = read_bytes(Path(path), MAX_SOURCE)
    elif name in POLICIES:
        policy, source = POLICIES[name], None
    else:
        hint = did_you_mean(name, POLICIES, _known([*POLICIES, "or path/to/file.py:NAME"]))
        raise InputError(f'policy: unknown policy "{name}"; {hint}')
    known = [*(parameter.name for parameter in policy.parameters), *COMMON]
    for key in sorted(set(texts) - set(known)):
        raise InputError(f'policy: {name} has no parameter "{key}"; {did_you_mean(key, known, _known(known))}')
    call_s = duration("call")(texts.pop("call", "0"), None)
    on_deadline = int(choice("on_deadline", *ON_DEADLINE)(texts.pop("on_deadline", "serve"), None))
    admit = parse_admission(texts.pop("admit")) if "admit" in texts else None
    if on_deadline != SERVE and policy.counts_on_queue:
        raise InputError(
            f"policy: on_deadline: expected a policy that plans no batches ahead, found {name}, which counts on "
            "requests that wait; choose e.g. fluid"
        )
    rules = {
        name: int(choice(name, *known)(texts.pop(name), None))
        for name, known in (("between", BETWEEN), ("dispatch", DISPATCH))
        if name in texts
    }
    limits = {name: _limit(name, texts.pop(name)) for name in LIMITS if name in texts}
    policy.settings(texts, 1.0)  # a fault is found now
    return Scheduler(
        spec, policy, texts, call_s, on_deadline=on_deadline, admit=admit, together=together, source=source,
        debug=debug, **rules,
        **limits,
    )  # fmt: skip


def _texts(parameters: str, spec: str) -> dict[str, str]:
    """The parameters of a policy as the user wrote them, by name."""
    texts: dict[str, str] = {}
    for parameter in filter(None, parameters.split(",")):
        key, equals, value = parameter.partition("=")
        if not equals or not value:
            raise InputError(f'policy: expected key=value, found "{parameter}" in "{spec}"')
        if key.strip() in texts:
            raise InputError(f'policy: expected every parameter once, found {key.strip()} twice in "{spec}"')
        texts[key.strip()] = value.strip()
    return texts


def _known(names: Iterable[str]) -> str:
    return f"known: {', '.join(names)}"


def _limit(name: str, text: str) -> int:
    with contextlib.suppress(ValueError):
        if (value := int(read_number(text, int))) >= 1:
            return value
    raise InputError(f'policy: {name}: expected a whole number >= 1, found "{text}"')
