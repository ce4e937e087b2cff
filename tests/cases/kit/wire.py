"""Incremental HTTP/1.1 parsing for both ends of the kit; keeps what a library would hide."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HEAD_END = b"\r\n\r\n"


class Malformed(Exception):
    """The peer sent bytes that are not HTTP/1.1."""


class Framing(StrEnum):
    """How a message says where its body ends."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    EOF = "eof"


@dataclass(frozen=True, slots=True)
class Head:
    """Start line and header fields, names and values as sent (latin-1)."""

    line: str
    headers: tuple[tuple[str, str], ...]
    raw: bytes

    def all(self, name: str) -> list[str]:
        """Every value of the field, in order of appearance."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def get(self, name: str) -> str | None:
        """The only value of the field, or None; a doubled field is an assertion error."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} appears {len(values)} times: {values}"
        return values[0] if values else None

    def names(self) -> set[str]:
        """The field names in lower case."""
        return {key.lower() for key, _ in self.headers}


def parse_head(raw: bytes) -> Head:
    """Split a head block (without the final empty line) into line and fields."""
    line, *rows = raw.decode("latin-1").split("\r\n")
    headers: list[tuple[str, str]] = []
    for row in rows:
        name, colon, value = row.partition(":")
        if not colon:
            raise Malformed(f"header line without a colon: {row!r}")
        headers.append((name, value.strip(" \t")))
    return Head(line, tuple(headers), raw)


def framing_of(head: Head, *, request: bool) -> tuple[Framing, int]:
    """Framing and length by RFC 9112 §6.3. Status and method exceptions are the caller's."""
    if any("chunked" in value.lower() for value in head.all("transfer-encoding")):
        return Framing.CHUNKED, 0
    lengths = set(head.all("content-length"))
    if len(lengths) > 1 or any(not value.isdigit() for value in lengths):
        raise Malformed(f"content-length: {sorted(lengths)}")
    if lengths:
        return Framing.LENGTH, int(lengths.pop())
    return (Framing.NONE if request else Framing.EOF), 0


class BodyReader:
    """Removes the framing from a body, piece by piece; `rest` is what follows the message."""

    def __init__(self, framing: Framing, length: int) -> None:
        self.framing = framing
        self.chunk_sizes: list[int] = []
        self.chunk_lines: list[bytes] = []
        self.trailers: list[bytes] = []
        self.done = framing is Framing.NONE or (framing is Framing.LENGTH and length == 0)
        self._left = length
        self._buffer = bytearray()
        self._in_data = framing is not Framing.CHUNKED

    @property
    def rest(self) -> bytes:
        """Bytes received after the end of the body."""
        return bytes(self._buffer) if self.done else b""

    def feed(self, data: bytes) -> bytes:
        """Body bytes that became available with `data`."""
        if self.framing is Framing.EOF:
            return data
        self._buffer += data
        if self.framing is Framing.LENGTH:
            return self._take()
        out = bytearray()
        while not self.done and self._step(out):
            pass
        return bytes(out)

    def _take(self) -> bytes:
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: len(piece)]
        self._left -= len(piece)
        if self.framing is Framing.LENGTH and self._left == 0:
            self.done = True
        return piece

    def _step(self, out: bytearray) -> bool:
        if self._in_data:
            return self._data_step(out)
        line = self._line()
        if line is None:
            return False
        if self.chunk_sizes and self.chunk_sizes[-1] == 0:
            self.done = not line
            if line:
                self.trailers.append(line)
            return True
        try:
            size = int(line.split(b";")[0].strip(), 16)
        except ValueError:
            raise Malformed(f"chunk size line {line[:80]!r}") from None
        self.chunk_sizes.append(size)
        self.chunk_lines.append(line)
        self._left, self._in_data = size, size > 0
        return True

    def _data_step(self, out: bytearray) -> bool:
        out += self._take()
        if self._left or len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise Malformed(f"chunk of {self.chunk_sizes[-1]} bytes followed by {bytes(self._buffer[:8])!r}")
        del self._buffer[:2]
        self._in_data = False
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line
