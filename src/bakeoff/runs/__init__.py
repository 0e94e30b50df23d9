"""The run folder: the raw truth of a run on disk, block by block, and everything that is read back from it."""

from .columns import to_columns
from .folder import RunFolder
from .info import RUN_SCHEMA, RunInfo

__all__ = ["RUN_SCHEMA", "RunFolder", "RunInfo", "to_columns"]
