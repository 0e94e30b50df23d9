"""Grows a Kineto trace: the same events again and again, each copy later in time and with numbers of its own.

python benchmarks/traces/grow.py SMALL.json.gz LARGE.json --times 6
"""

from __future__ import annotations

import argparse
import gzip
import re
from pathlib import Path

_TS = re.compile(rb'"ts": (\d+)')
_CORRELATION = re.compile(rb'"(correlation|External id|id)": (\d+)')


def grow(source: Path, target: Path, times: int) -> int:
    """Writes the grown trace (plain JSON) and returns its size in bytes. Times of the source must be whole µs."""
    data = source.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    opening = re.search(rb'"traceEvents"\s*:\s*\[', data)
    assert opening is not None
    closing = data.rindex(b"]")
    head, body, tail = data[: opening.end()], data[opening.end() : closing], data[closing:]
    stamps = [int(stamp) for stamp in _TS.findall(body)]
    length = max(stamps) - min(stamps) + 1_000_000
    numbers = max(int(number) for _, number in _CORRELATION.findall(body)) + 1
    with target.open("wb") as out:
        out.write(head)
        for copy in range(times):
            if copy:
                out.write(b",")
            later, more = copy * length, copy * numbers
            moved = _TS.sub(lambda m, later=later: b'"ts": %d' % (int(m[1]) + later), body) if copy else body
            if copy:
                moved = _CORRELATION.sub(lambda m, more=more: b'"%s": %d' % (m[1], int(m[2]) + more), moved)
            out.write(moved)
        out.write(tail)
    return target.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--times", type=int, default=6)
    given = parser.parse_args()
    print(f"{grow(given.source, given.target, given.times) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
