"""File descriptors: one for each connection, more than many systems allow by default."""

from __future__ import annotations

import os
from contextlib import suppress

from ..errors import UsageError

# What the rest of the program has open: files, pipes to servers, libraries.
_OTHERS = 256


def allow_connections(count: int) -> None:
    """Raises this process's soft limit where it is too low for so many connections. UsageError if it cannot be."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = count + _OTHERS
    if soft == resource.RLIM_INFINITY or need <= soft:
        return
    if hard != resource.RLIM_INFINITY and need > hard:
        raise UsageError(
            f"{count} connections at a time need {need} file descriptors; this process may have {hard}",
            remedy="raise the limit (`ulimit -Hn`, or LimitNOFILE= of a service), or lower the load",
        )
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
    except (OSError, ValueError) as error:  # macOS: a lower limit in the kernel than the hard one says
        raise UsageError(
            f"{count} connections at a time need {need} file descriptors; the limit of {soft} cannot be raised"
            f" ({getattr(error, 'strerror', None) or error})",
            remedy=f"start it after `ulimit -n {need}`" if os.name == "posix" else None,
        ) from None


def prefer_connections(count: int) -> None:
    """The same where nobody knows how many there will be at a time: as many as the system allows, and no error."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard - _OTHERS)
    with suppress(UsageError):
        allow_connections(count)
