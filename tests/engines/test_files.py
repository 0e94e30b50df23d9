from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from bakeoff.engines.cores import available_cores
from bakeoff.engines.files import page_cache, sha256_of


def test_hash_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, model = tmp_path / "cache" / "hashes.json", tmp_path / "m.gguf"
    model.write_bytes(b"one")
    expected = hashlib.sha256(b"one").hexdigest()
    assert sha256_of(model, store) == expected
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", None)  # hashing again would fail
        assert sha256_of(model, store) == expected
    model.write_bytes(b"two")
    os.utime(model, ns=(1, 1))
    assert sha256_of(model, store) == hashlib.sha256(b"two").hexdigest()
    assert [path.name for path in store.parent.iterdir()] == ["hashes.json"]


@pytest.mark.parametrize("content", ["", "not json", "[1]", '{"x": 1}'])
def test_broken_cache_is_done_without(tmp_path: Path, content: str) -> None:
    store, model = tmp_path / "hashes.json", tmp_path / "m.gguf"
    store.write_text(content)
    model.write_bytes(b"one")
    assert sha256_of(model, store) == hashlib.sha256(b"one").hexdigest()


def test_unwritable_cache_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    model = tmp_path / "m.gguf"
    model.write_bytes(b"one")
    assert sha256_of(model, tmp_path / "file" / "hashes.json") == hashlib.sha256(b"one").hexdigest()


def test_freshly_written_file_is_in_the_page_cache(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(os.urandom(1 << 20))
    assert page_cache(model) == ("warm" if sys.platform == "linux" else "unknown")
    assert page_cache(tmp_path / "missing") == "unknown"
    (tmp_path / "empty").touch()
    assert page_cache(tmp_path / "empty") == "unknown"


def test_cores_are_within_what_the_machine_has() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
