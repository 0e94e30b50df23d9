"""kill -9 in the middle of writing: every block that is visible afterwards is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from bakeoff.runs import RunFolder

from .making import block, folder, record

# Writes blocks for ever, with more requests each time round, and says so on stdout after each.
WRITER = """
import sys, pathlib
from bakeoff.runs import RunFolder
from tests.runs.making import block, record, sample
from bakeoff.model import Start
run = RunFolder.open(pathlib.Path(sys.argv[1]))
with run.lock():
    while True:
        number = run.next_block_id()
        size = 1 + number * 37 % 400
        run.write_start(Start(id=number, variant="base", round=0, group=0))
        run.write_block(block(number, requests=size), [record(i) for i in range(size)], [sample(i) for i in range(50)])
        run.update(notes=(f"{number} blocks",))
        print(number, flush=True)
"""


def test_kill_9_loses_at_most_the_block_in_flight(tmp_path: Path) -> None:
    run = folder(tmp_path)
    root = Path(__file__).parents[2]
    reported = -1
    for lines_before_the_kill in (3, 4, 6):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(run.path)], stdout=subprocess.PIPE, text=True, cwd=root
        )
        with child:
            assert child.stdout is not None
            for _ in range(lines_before_the_kill):
                reported = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
        again = RunFolder.open(run.path)
        with again.lock():
            blocks = again.blocks()
            assert [data.block.id for data in blocks] == list(range(len(blocks)))
            assert len(blocks) > reported
            for data in blocks:
                assert len(data) == data.block.requests == 1 + data.block.id * 37 % 400
                assert len(again.samples(data.block.id)) == 50
            assert len(again.starts()) >= len(blocks)
            assert not list(run.path.rglob("*.tmp"))
    resumed = RunFolder.open(run.path)
    resumed.write_block(block(resumed.next_block_id()), [record(0), record(1)], [])
    assert len(resumed.blocks()[-1]) == 2
