"""Exceptions. Each has the text of the library: what happened, to what, why, and what to do about it."""

import builtins


class Error(OSError):
    """What was asked for could not be done. `errno` is that of the system call, or None.

    Of `send`: `index` is the position of the first packet that could not be sent, or None if the
    system does not tell which it was, and `sent` how many packets were sent.
    """

    index: int | None = None
    sent: int | None = None

    def __init__(self, errno: int | None, text: str) -> None:
        super().__init__(errno, text)

    def __str__(self) -> str:
        """The text, which names the errno where there is one."""
        return self.strerror or ""


class UsageError(Error, ValueError):
    """What was asked for is wrong: a malformed spec, an unknown option, a filter that is none."""


class NotPermittedError(Error, builtins.PermissionError):
    """The process lacks a privilege."""


class NotFoundError(Error, builtins.FileNotFoundError):
    """There is no such file or interface."""
