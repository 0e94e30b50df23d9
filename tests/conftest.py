"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    """Signals as in the foreground: a shell has its background jobs ignore SIGINT, and nohup SIGHUP, which every child
    inherits; a product that rightly stays silent then would fail the tests of interrupts."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
