"""Compilation of functions, and the folder that keeps their compiled form: nothing else in fluidb decides on it."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from types import FunctionType as PythonFunction
from typing import Any

import numba
from numba import extending, njit
from numba.core import cgutils, imputils, ir, types
from numba.core import serialize as _serialize
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel.models import PointerModel
from numba.core.runtime.nrt import rtsys
from numba.core.types import FunctionType, WrapperAddressProtocol
from numba.core.typing.templates import AttributeTemplate
from numba.experimental.function_type import _get_wrapper_address
from numba.extending import is_jitted
from numba.np import arrayobj as _arrayobj

# numba has no public way to keep compiled functions elsewhere, or an address beside a call: these parts are not public,
# so pyproject.toml bounds its version, and tests/test_jit.py names the part that a new version lacks
serialize: Any = _serialize  # numba states the types of some functions only
arrayobj: Any = _arrayobj
rebuild: Any = CompileResult._rebuild  # noqa: SLF001
wrapper_address: Any = _get_wrapper_address

SOURCES = (
    "jit.py",
    "dse/engine.py",
    "dse/device/kernels.py",
    "dse/npu/beats.py",
    "dse/npu/bounds.py",
    "dse/npu/dominance.py",
    "dse/npu/kernels.py",
    "dse/npu/layer_choice.py",
    "dse/npu/schedule.py",
    "dse/partition/kernels.py",
    "dse/subgraphs/kernels.py",
    "serving/batches.py",
    "serving/bound.py",
    "serving/contention.py",
    "serving/deadlines.py",
    "serving/event_loop.py",
    "serving/heaps.py",
    "serving/host.py",
    "serving/in_time.py",
    "serving/joining.py",
    "serving/lateness.py",
    "serving/policies/*.py",
    "serving/sources.py",
    "serving/state.py",
    "serving/terms.py",
    "serving/turns.py",
    "rules/pad_or_split.py",
)
"""Every file with a compiled function, or with a constant of one."""

COMPILING = Lock()
DIGEST = hashlib.sha256
DIGEST_BYTES = DIGEST().digest_size


@cache
def sources() -> frozenset[Path]:
    """The files of :data:`SOURCES`."""
    root = Path(__file__).parent
    return frozenset(path.resolve() for pattern in SOURCES for path in root.glob(pattern))


@cache
def cache_folder() -> Path | None:
    """Folder of compiled functions for this state of all files that have some; ``None`` if there is no home."""
    named: Any = numba.config  # its settings are made at run time, so that no type checker knows them
    place = named.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  Path.expanduser fails without a home
    if place.startswith("~"):
        return None
    digest = DIGEST()
    for path in sorted(sources()):
        digest.update(path.read_bytes())
    return Path(place, *([] if named.CACHE_DIR else ["fluidb"]), digest.hexdigest()[:16])


@cache
def tell_compiling() -> None:
    """Note, once, that functions are compiled now: it takes seconds in which nothing else is seen."""
    folder = cache_folder()
    there = next((place for place in folder.parents if place.exists()), None) if folder else None
    kept = there is not None and there.is_dir() and os.access(there, os.W_OK)
    how = "once" if kept else f"at each command, as {folder or 'a missing home'} cannot keep them (set XDG_CACHE_HOME)"
    logging.getLogger("fluidb").info("compiling functions, %s: about 10 s", how)


def fields_in(kind: Any) -> Iterator[tuple[str, ...]]:
    """Fields of the named tuples in types: numba names a tuple without them, and compiled code reads them by place."""
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        yield kind.fields
    match kind:
        case tuple():
            parts = kind
        case FunctionType():
            parts = kind.signature.args
        case Reference():
            parts = (kind.dtype,)
        case _:
            parts = getattr(kind, "types", ())
    for part in parts:
        yield from fields_in(part)


class FunctionCache(NullCache):
    """numba's cache of one function: a file for each signature and machine, with a digest, so that damage shows.

    numba's own would run a damaged file.  Where no file can be read or written, every process compiles for itself.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def _file(self, signature: Any, codegen: Any) -> Path | None:
        folder = cache_folder()
        fields = [*fields_in(signature)]
        key = (numba.__version__, sys.implementation.cache_tag, str(signature), fields, codegen.magic_tuple())
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        return folder and folder / f"{name}-{DIGEST(repr(key).encode()).hexdigest()[:16]}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function as it was compiled earlier; ``None`` if it was not."""
        rtsys.initialize(target_context)  # all that a compiled function needs; a compilation loads the rest of numba
        path = self._file(sig, target_context.codegen())
        try:
            raw = path.read_bytes() if path else None
        except OSError:
            raw = None
        if raw is None:
            tell_compiling()
            return None
        content = raw[DIGEST_BYTES:]
        if DIGEST(content).digest() == raw[:DIGEST_BYTES]:
            try:
                kept = pickle.loads(content)  # noqa: S301  our own file, whole
            except (AttributeError, ImportError):  # it names the class of an argument, which stands elsewhere now
                tell_compiling()
                return None
            return rebuild(target_context, *kept)
        warnings.warn(f"{path}: damaged; the function is compiled again", stacklevel=2)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the function as it was compiled."""
        path = self._file(sig, data.codegen)
        if path is None or data.library.has_dynamic_globals:
            return
        content = serialize.dumps(data._reduce())  # noqa: SLF001
        partial = path.with_name(f"{path.name}.{os.urandom(6).hex()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(DIGEST(content).digest() + content)
            partial.replace(path)
        except OSError:  # no permission, or a full disk
            with contextlib.suppress(OSError):
                partial.unlink()


class FunctionAddress(WrapperAddressProtocol):
    """A compiled function as an argument of another one, for a caller that passes it often.

    numba looks the address of a function up at every call, which takes longer than most of our calls.
    """

    def __init__(self, function: Any, signature: Any) -> None:
        self.function, self.types = function, signature
        self.address = wrapper_address(function, signature)
        self._numba_type_ = FunctionType(signature)  # or numba makes one at every call

    def __wrapper_address__(self) -> int:
        """Its address."""
        return int(self.address)

    def signature(self) -> Any:
        """Its types."""
        return self.types


@contextlib.contextmanager
def indices_from_zero() -> Iterator[None]:
    """Compile ``array[k]`` for ``k`` of 0 and more only: to look at each for a sign takes a tenth of a replay."""

    def take(context: Any, builder: Any, kind: Any, index: Any, _: Any) -> Any:
        return context.cast(builder, index, kind, types.intp)

    with global_compiler_lock:  # no other thread compiles meanwhile
        usual = arrayobj.fix_integer_index
        arrayobj.fix_integer_index = take
        try:
            yield
        finally:
            arrayobj.fix_integer_index = usual


@contextlib.contextmanager
def shared_parts() -> Iterator[None]:
    """Inline functions without copies of what each statement names, which takes a third of the time.

    The place in the source never changes. The scope holds every variable of the function that is inlined; numba copies
    it with each block, and inlines each copy of a function only once.
    """
    parts: list[Any] = [ir.Loc, ir.Scope]
    for part in parts:
        part.__deepcopy__ = lambda own, _: own
    try:
        yield
    finally:
        for part in parts:
            del part.__deepcopy__


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Leave functions that are made here as plain Python, so that it says where an index is out of bounds."""
    named: Any = numba.config
    usual, named.DISABLE_JIT = named.DISABLE_JIT, True
    try:
        yield
    finally:
        named.DISABLE_JIT = usual


def as_python(function: Any) -> Any:
    """A copy of a function and of all that it calls by name, as plain Python.

    Called from plain Python, each would be compiled for itself: half a minute for the event loop.
    """
    spaces: dict[int, dict[str, Any]] = {}

    def copied(one: Any) -> Any:
        names = one.__globals__
        if id(names) not in spaces:
            space = spaces[id(names)] = dict(names)
            space |= {name: copied(value.py_func) for name, value in names.items() if is_jitted(value)}
        plain = PythonFunction(one.__code__, spaces[id(names)], one.__name__, one.__defaults__, one.__closure__)
        plain.__kwdefaults__ = one.__kwdefaults__
        return plain

    own = getattr(function, "py_func", function)
    return copied(own) if isinstance(own, PythonFunction) else own


def compile_for(signature: Any, function: Any) -> None:
    """Compile a function for a signature and for no other, once, whichever threads ask for it."""
    with COMPILING, shared_parts():
        if not function.signatures:
            with contextlib.nullcontext() if function.targetoptions["_nrt"] else indices_from_zero():
                function.compile(signature)
            function.disable_compile()


def compiled(signature: Any = None, *, lean: bool = False, **options: Any) -> Callable[[Any], Any]:
    """A decorator that compiles a function: it runs without the interpreter's lock, and ours are kept on disk.

    A user's function is compiled by every process: what it was compiled from may be anything, e.g. a constant of
    another file or of the environment, and no cache would notice that it has changed.

    A ``lean`` function makes no array, and takes no element by a negative index: it needs no counts of references, and
    no test of indices.
    """

    def decorate(function: Any) -> Any:
        untyped: Any = {"_nrt": not lean, **options}  # numba states no type for it
        made: Any = njit(nogil=True, **untyped)(function)
        if is_jitted(made):  # not if numba is switched off
            if Path(function.__code__.co_filename).resolve() in sources():
                made._cache = FunctionCache(function)  # type: ignore[attr-defined]  # noqa: SLF001
            if signature is not None:
                compile_for(signature, made)
        return made

    return decorate


class Reference(types.CPointer):
    """A named tuple that a compiled function passes by its address: a field is loaded where it is read.

    numba copies every field of a named tuple at every call, an array as seven numbers or more.
    """

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.name = f"reference({target})"

    @property
    def key(self) -> str:
        """What tells it from other types: text, which is hashed once."""
        return self.name


def refer(fields: Any) -> Any:
    """A named tuple by its address, while the calling function runs; in plain Python the tuple itself.  None stays."""
    return fields


@extending.type_callable(refer)
def _type_reference(_: Any) -> Any:
    def typer(fields: Any) -> Any:
        return fields if isinstance(fields, types.NoneType) else Reference(fields)

    return typer


@extending.lower_builtin(refer, types.NamedTuple)
def _take_address(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    stored = context.data_model_manager[signature.args[0]].as_data(builder, values[0])
    return cgutils.alloca_once_value(builder, stored)


@extending.lower_builtin(refer, types.none)
def _keep_none(_context: Any, _builder: Any, _signature: Any, values: Any) -> Any:
    return values[0]


extending.register_model(Reference)(PointerModel)


@extending.infer_getattr
class _ReferenceAttribute(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:  # type: ignore[override]
        fields = reference.dtype.fields
        if name not in fields:
            return None
        field = reference.dtype[fields.index(name)]
        return Reference(field) if isinstance(field, types.NamedTuple) else field


@extending.lower_getattr_generic(Reference)
def _load(context: Any, builder: Any, reference: Any, address: Any, name: str) -> Any:
    place = reference.dtype.fields.index(name)
    field, at = reference.dtype[place], cgutils.gep_inbounds(builder, address, 0, place)
    if isinstance(field, types.NamedTuple):
        return at
    value = context.data_model_manager[field].load_from_data_pointer(builder, at)
    if isinstance(field, types.Array):  # the caller keeps it alive: no owner, so that nobody counts references
        array = context.make_array(field)(context, builder, value=value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        value = array._getvalue()  # noqa: SLF001
    return imputils.impl_ret_untracked(context, builder, field, value)
