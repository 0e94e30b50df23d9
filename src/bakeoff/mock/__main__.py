"""``python -m bakeoff.mock``."""

from .options import mock_command

if __name__ == "__main__":
    mock_command()
