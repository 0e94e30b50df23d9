"""Which files a run folder has lost: blocks are numbered without gaps, and run.json counts those written."""

from __future__ import annotations

from pathlib import Path

from .parts import part_name


def missing_files(run: Path, written: int) -> tuple[str, ...]:
    """Names, relative to the folder, of files that were written and are not there. written: blocks, as run.json says
    (0: not counted; the gaps below the last one show all the same)."""
    there = {int(file.stem) for file in (run / "requests").glob("*.parquet") if file.stem.isdecimal()}
    count = max(written, max(there, default=-1) + 1)
    lost = [f"requests/{part_name(number)}.parquet" for number in range(count) if number not in there]
    lost += [
        name for number in sorted(there) if not (run / (name := f"telemetry/{part_name(number)}.parquet")).exists()
    ]
    if count and not (run / "starts.parquet").exists():
        lost.append("starts.parquet")
    return tuple(lost)
