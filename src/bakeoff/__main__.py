"""``python -m bakeoff`` is ``bakeoff``."""

from .cli.main import main

main()
