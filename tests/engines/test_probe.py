from __future__ import annotations

import socket
from typing import Any

import pytest

from bakeoff.engines import probe
from bakeoff.engines.probe import free_port, require_free
from bakeoff.errors import EngineError


def test_free_port_is_free() -> None:
    port = free_port()
    require_free("127.0.0.1", port)
    assert not probe._connects("127.0.0.1", port)


def test_listener_is_seen_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert probe._connects("127.0.0.1", port)
        with pytest.raises(EngineError, match="already in use") as caught:
            require_free("127.0.0.1", port)
    assert str(port) in str(caught.value.remedy)


def test_bound_port_that_does_not_accept_yet_is_in_use() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(EngineError, match="already in use"):
            require_free("127.0.0.1", other.getsockname()[1])


def test_a_connection_to_itself_is_no_open_port(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()

    class Unlucky(socket.socket):
        """The system picks the very port that is looked at."""

        def bind(self, address: Any) -> None:
            super().bind((address[0], port))

    monkeypatch.setattr(socket, "socket", Unlucky)
    assert not probe._connects("127.0.0.1", port)


def test_address_of_another_machine() -> None:
    with pytest.raises(EngineError, match="cannot listen"):
        require_free("192.0.2.1", 8000)


def test_listener_on_all_addresses_counts() -> None:
    with socket.create_server(("0.0.0.0", 0)) as other, pytest.raises(EngineError, match="in use"):  # noqa: S104  # on purpose
        require_free("127.0.0.1", other.getsockname()[1])
