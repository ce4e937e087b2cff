"""Reading a request body: bounded, budgeted, and looked at only as far as the router must."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from router.core.failure import Failure, Kind
from router.core.headers import header
from router.proxy.budget import BodyBudget
from router.proxy.client import Client

# A body of unknown length asks for its memory in steps of this size.
STEP = 1 << 20
# Bytes that a body may have before memory is asked for, about as many as the listener has read by then
# anyway. A client that announces much and sends nothing keeps no memory from others.
UNCOUNTED = 64 * 1024
# Bytes per second of body that a client must reach on the whole, as in Apache's RequestReadTimeout: a byte
# now and then is no progress.
MIN_RATE = 500


@dataclass(frozen=True, slots=True)
class Seen:
    """What the router reads of a request body.

    Attributes:
        fields: the top-level fields that were asked for and that the body has.
    """

    fields: Mapping[str, object]

    @property
    def has_rid(self) -> bool:
        """True if the body names its own `rid`."""
        return _RID in self.fields


NOTHING_SEEN = Seen({})


class Peeker:
    """Checks that a body is a JSON object and decodes a few of its fields.

    Everything else is skipped over and goes upstream byte for byte. The fields themselves are kept raw until
    one of them is there, so a request without any costs nothing more than the check.

    Args:
        names: top-level fields to decode.
    """

    def __init__(self, names: Iterable[str]) -> None:
        # The fields' names are whatever an operator wrote, so the attributes have names of their own.
        self._names = {f"f{number}": name for number, name in enumerate(sorted({_RID, *names}))}
        attributes = [(attribute, msgspec.Raw, _ABSENT) for attribute in self._names]
        kind = msgspec.defstruct("Peek", attributes, rename=self._names, gc=False)
        self._decoder = msgspec.json.Decoder(kind)
        self._nothing = kind()

    def peek(self, data: bytes) -> Seen:
        """Look into `data`.

        Raises:
            Failure: `invalid_json`, saying in general terms what is wrong; never with a piece of the body.
        """
        found = self._decode(data)
        if found == self._nothing:
            return NOTHING_SEEN
        raw = {name: getattr(found, attribute) for attribute, name in self._names.items()}
        return Seen({name: _decoded(value) for name, value in raw.items() if value is not _ABSENT})

    def _decode(self, data: bytes) -> object:
        try:
            return self._decoder.decode(data)
        except RecursionError:
            raise Failure(Kind.JSON, "The request body is nested too deeply.") from None
        except msgspec.ValidationError:
            raise Failure(Kind.JSON, "The request body is JSON but not an object.") from None
        except (msgspec.DecodeError, ValueError):
            raise Failure(Kind.JSON, "The request body is not valid JSON.") from None


_RID = "rid"
_ABSENT = msgspec.Raw()
_value_decoder = msgspec.json.Decoder()


def _decoded(value: msgspec.Raw) -> object:
    """A field's value; one that cannot be read (a number out of range) is the engine's to refuse."""
    try:
        return _value_decoder.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


class HeldBody:
    """A request body in memory, with the budget it takes. Use as a context manager."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._taken = 0
        self.data = b""

    async def read(self, client: Client, *, limit: int, stall: float, wait: float) -> None:
        """Read the whole body.

        Args:
            limit: bytes allowed.
            stall: seconds without a byte after which the client is given up, and the seconds that it may be
                behind `MIN_RATE`; 0: none.
            wait: seconds to wait for memory.

        Raises:
            Failure: `request_too_large` as soon as the limit is passed, `request_timeout`, `client_gone`,
                `body_memory`.
        """
        length = header(client.headers, b"content-length")
        declared = int(length) if length is not None else None
        if declared is not None and declared > limit:
            raise _too_large(limit)
        whole = client.take_body()
        if whole is None:
            await self._gather(client, declared, limit, stall, wait)
            return
        if len(whole) > limit:
            raise _too_large(limit)
        await self._take(len(whole), wait)
        self.data = whole

    async def _gather(
        self, client: Client, declared: int | None, limit: int, stall: float, wait: float
    ) -> None:
        """Read a body that is still on its way."""
        loop = client.loop
        began = loop.time()
        pieces: list[bytes] = []
        size, more = 0, True
        while more:
            piece, more = await _receive(client, _patience(stall, loop.time() - began, size))
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            if piece:
                pieces.append(piece)
            needed = size if not more else min(size + STEP, limit) if declared is None else declared
            if needed > self._taken and (size > UNCOUNTED or not more):
                asked = loop.time()
                await self._take(needed - self._taken, wait)
                began += loop.time() - asked  # the client was not read from meanwhile
        self.data = pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _take(self, size: int, wait: float) -> None:
        if not self._budget.take_now(size):
            await self._budget.take(size, wait)
        self._taken += size

    def release(self) -> None:
        """Drop the body: it is not needed for a retry any more."""
        self.data = b""
        if self._taken:
            self._budget.give(self._taken)
            self._taken = 0

    def __enter__(self) -> HeldBody:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


async def _receive(client: Client, stall: float) -> tuple[bytes, bool]:
    try:
        async with asyncio.timeout(stall or None):
            return await client.receive_body()
    except TimeoutError:
        raise Failure(Kind.BODY_TIMEOUT) from None


def _patience(stall: float, elapsed: float, size: int) -> float:
    """Seconds that the next bytes may take, when `size` bytes took `elapsed` seconds; 0: any."""
    return max(0.001, min(stall, stall + size / MIN_RATE - elapsed)) if stall else 0.0


def _too_large(limit: int) -> Failure:
    return Failure(
        Kind.SIZE, f"The request body is larger than the limit of {limit} bytes (server.max_body)."
    )
