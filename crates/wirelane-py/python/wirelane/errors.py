"""Exceptions. Their texts state what failed, why, and the remedy."""

import builtins


class Error(OSError):
    """A call failed. `errno` is the system call's errno, or None.

    For `send`, `index` is the position of the first packet that could not be sent, or None if the
    system does not report it; `sent` is the number of packets sent.
    """

    index: int | None = None
    sent: int | None = None

    def __init__(self, errno: int | None, text: str) -> None:
        super().__init__(errno, text)

    def __str__(self) -> str:
        """The text, with the errno if there is one."""
        return self.strerror or ""


class UsageError(Error, ValueError):
    """The request is wrong: a malformed spec, an unknown option, an invalid filter."""


class NotPermittedError(Error, builtins.PermissionError):
    """The process lacks a privilege."""


class NotFoundError(Error, builtins.FileNotFoundError):
    """There is no such file or interface."""
