from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from typing import Any

import pytest

from bakeoff.engines import BUILT_IN, engine_names, get_engine
from bakeoff.errors import EngineMissing


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_engines(name: str) -> None:
    assert get_engine(name).name == name
    assert name in engine_names()


def test_unknown_engine_names_the_nearest_and_the_list() -> None:
    with pytest.raises(EngineMissing, match="did you mean 'llamacpp'") as caught:
        get_engine("llamacp")
    assert "openai" in str(caught.value)


class Plugin:
    name = "mine"


PLUGIN = Plugin()


def _points(value: str) -> Any:
    point = importlib.metadata.EntryPoint("mine", value, "bakeoff.engines")
    everything = importlib.metadata.EntryPoints([point])
    return everything.select


def test_plugins_come_in_as_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", _points(f"{__name__}:PLUGIN"))
    assert id(get_engine("mine")) == id(PLUGIN)
    assert engine_names() == (*BUILT_IN, "mine")


def test_broken_plugin_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", _points("no_such_module_here:ENGINE"))
    with pytest.raises(EngineMissing, match="no_such_module_here"):
        get_engine("mine")


def test_asking_for_the_room_loads_nothing_heavy() -> None:
    code = "import sys, bakeoff.engines; print(sorted({'psutil', 'numpy', 'xllamacpp', 'ctypes'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
