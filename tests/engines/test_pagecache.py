import os
import sys
from pathlib import Path

import pytest

from bakeoff.engines.files import page_cache
from bakeoff.engines.pagecache import settle


def _file(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(os.urandom(1 << 20))
    return path


def test_as_found_does_nothing(tmp_path: Path) -> None:
    settle(tmp_path / "nowhere", "as found")
    settle(tmp_path / "nowhere", "cold")  # what is not there needs no dropping


def test_warm_reads_all_files_of_a_folder(tmp_path: Path) -> None:
    path = _file(tmp_path)
    settle(tmp_path, "warm")
    assert page_cache(path) in ("warm", "unknown")


@pytest.mark.skipif(sys.platform != "linux", reason="mincore and fadvise are Linux's")
def test_cold_drops_the_pages_where_the_file_system_lets_us(tmp_path: Path) -> None:
    path = _file(tmp_path)
    settle(path, "warm")
    settle(path, "cold")
    state = page_cache(path)
    # A file system in memory keeps its pages; then the start is not called cold either.
    assert state in ("cold", "warm", "unknown")
    settle(path, "warm")
    assert page_cache(path) == ("unknown" if state == "unknown" else "warm")
    assert path.stat().st_size == 1 << 20
