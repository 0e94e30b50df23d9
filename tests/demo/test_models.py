"""The cache of the demo's models: made once, checked, mended."""

from __future__ import annotations

import builtins
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bakeoff.demo import models as module
from bakeoff.demo.models import DemoModels, default_cache, prepare, prepare_from
from bakeoff.errors import BakeoffError, EngineMissing

from .tiny import tiny_source, types


class Told:
    """A progress listener."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.shares: list[float] = []

    def __call__(self, text: str, share: float) -> None:
        self.texts.append(text)
        self.shares.append(share)

    @property
    def made(self) -> set[str]:
        return {text.removeprefix("preparing ") for text in self.texts if text.startswith("preparing")}


NAMES = {"tiny.gguf", "gemma-3-270m-q8_0.gguf", "gemma-3-270m-q4_0-blocks.gguf"}


def make(tmp_path: Path, **kw: Any) -> tuple[DemoModels, Told]:
    told = Told()
    return prepare_from(tiny_source(tmp_path, **kw), tmp_path / "cache", told), told


def test_the_first_call_makes_all_three_files(tmp_path: Path) -> None:
    models, told = make(tmp_path)
    assert types(models.base)["blk.0.attn_q.weight"] == "Q8_0"
    assert types(models.flash)["blk.0.attn_q.weight"] == "Q4_0"
    assert models.source.read_bytes() == (tmp_path / "original.gguf").read_bytes()
    assert told.made == NAMES
    assert told.shares == sorted(told.shares)
    assert (told.texts[-1], told.shares[-1]) == ("ready", 1.0)
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_the_second_call_only_checks(tmp_path: Path) -> None:
    models, _ = make(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (models.base, models.flash, models.source)}
    again, told = make(tmp_path, assemble=lambda _path: pytest.fail("assembled again"))
    assert again == models
    assert told.made == set()
    assert told.shares == sorted(told.shares)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("which", ["base", "flash", "source"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_bad_file_is_made_anew_and_the_others_kept(tmp_path: Path, which: str, damage: str) -> None:
    models, _ = make(tmp_path)
    path: Path = getattr(models, which)
    good = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(good[:-1] + (b"" if damage == "cut" else bytes([good[-1] ^ 1])))
    _, told = make(tmp_path)
    assert told.made == {path.name}
    assert told.shares == sorted(told.shares)
    assert path.read_bytes() == good


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": "other/1", "files": {}}', b"\xff"])
def test_without_a_manifest_the_copies_are_made_anew(tmp_path: Path, content: bytes) -> None:
    make(tmp_path)
    (tmp_path / "cache/manifest.json").write_bytes(content)
    _, told = make(tmp_path)
    assert told.made == NAMES - {"tiny.gguf"}  # the source's own hash is known


def test_another_recipe_makes_the_copies_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.setattr(module, "RECIPE", module.RECIPE + 1)
    _, told = make(tmp_path)
    assert told.made == NAMES - {"tiny.gguf"}


def test_the_manifest_says_what_was_made_from_what(tmp_path: Path) -> None:
    models, _ = make(tmp_path)
    files = json.loads((tmp_path / "cache/manifest.json").read_text())["files"]
    assert set(files) == NAMES
    entry = files[models.base.name]
    assert entry["size"] == models.base.stat().st_size
    assert entry["source"] == files["tiny.gguf"]["sha256"]
    assert entry["recipe"] == module.RECIPE


def test_ctrl_c_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(source: Path, target: Path, *_: object) -> None:
        target.write_bytes(source.read_bytes()[:100])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "convert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path)
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == [".lock", "manifest.json", "tiny.gguf"]
    _, told = make(tmp_path)
    assert told.made == NAMES - {"tiny.gguf"}


KILLED = """
import sys, time, pathlib
from bakeoff.demo import models
from tests.demo.tiny import tiny_source
def stuck(source, target, *_):
    target.write_bytes(source.read_bytes()[:100])
    print("half", flush=True)
    time.sleep(100)
models.convert = stuck
folder = pathlib.Path(sys.argv[1])
models.prepare_from(tiny_source(folder), folder / "cache", lambda text, share: None)
"""


def test_a_killed_preparation_is_cleared_and_another_process_waits_for_a_running_one(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root)
    told: list[str] = []

    def kill_when_waiting(text: str, _share: float) -> None:
        told.append(text)
        if text.startswith("waiting"):
            child.send_signal(signal.SIGKILL)

    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "half\n"
        assert len(list((tmp_path / "cache").glob("*.tmp"))) == 1
        models = prepare_from(tiny_source(tmp_path), tmp_path / "cache", kill_when_waiting)
    assert told[0] == "waiting for another preparation"
    assert not list((tmp_path / "cache").glob("*.tmp"))
    assert types(models.flash)["blk.0.attn_q.weight"] == "Q4_0"


def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage(100))
    with pytest.raises(BakeoffError, match=r"(?s)needs .* MB, .* MB are free.*BAKEOFF_CACHE"):
        make(tmp_path)
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_disk_that_fills_up_meanwhile_is_told(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        path.write_bytes(b"x")
        raise OSError(28, "No space left on device")

    with pytest.raises(BakeoffError, match=r"(?s)No space left on device.*free disk space"):
        make(tmp_path, assemble=full)
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_a_package_with_other_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BakeoffError, match=r"wrong hash"):
        make(tmp_path, assemble=lambda path: path.write_bytes(b"GGUF something else"))
    assert not (tmp_path / "cache/tiny.gguf").exists()


def test_without_the_package_the_remedy_is_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kw: Any) -> Any:
        if name.startswith("gemma3"):
            raise ModuleNotFoundError(name, name=name)
        return real(name, *args, **kw)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(EngineMissing, match=r"pip install -e '\.\[demo\]'"):
        prepare(tmp_path)


def test_the_cache_is_the_users_own_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_CACHE", str(tmp_path))
    assert default_cache() == tmp_path / "demo"
    monkeypatch.delenv("BAKEOFF_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache().parts[-2:] == ("bakeoff", "demo")
    assert default_cache().is_relative_to(tmp_path)


@pytest.mark.real
def test_the_packaged_model_becomes_two_copies(tmp_path: Path) -> None:
    models = prepare(tmp_path)
    assert models.source.stat().st_size == 253_113_024
    assert models.base.stat().st_size == 291_543_744
    assert models.flash.stat().st_size == 241_408_704
    told = Told()
    assert prepare(tmp_path, progress=told) == models
    assert told.made == set()
