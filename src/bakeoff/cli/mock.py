"""`bakeoff mock`: the same command as ``python -m bakeoff.mock``."""

from ..mock.options import mock_command as command

__all__ = ["command"]
