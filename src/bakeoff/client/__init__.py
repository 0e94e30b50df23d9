"""The streaming HTTP load client: the instrument. Stamps at the socket read, counts what the server says."""

from .block import ClientBlock, ClosedLoop, OpenLoop, Timeouts
from .clock import SYSTEM_CLOCK, Clock
from .load import run_requests
from .loop import LoopRunner, loop_runner
from .query import Answer, HttpClient
from .request import PreparedRequest, prepare

__all__ = [
    "SYSTEM_CLOCK",
    "Answer",
    "ClientBlock",
    "Clock",
    "ClosedLoop",
    "HttpClient",
    "LoopRunner",
    "OpenLoop",
    "PreparedRequest",
    "Timeouts",
    "loop_runner",
    "prepare",
    "run_requests",
]
