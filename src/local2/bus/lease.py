"""The lease of a bus: among several stacks, only the one that holds it serves (`stack/serving.py`).

Two serving stacks with separate ledgers would split the requests, and each would remember only a
part. Stacks that share a ledger hold the lease together: each of them may renew it. The lease is a
key in a KV bucket of JetStream that its holder keeps renewing. By its own clock, the holder stops
serving before the lease can expire. A server that restarts, or elects another leader, is back
sooner than that. See decision 0007.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

import msgspec
import nats.errors
import nats.js.errors
from nats.js.api import StorageType
from nats.js.kv import KeyValue

from local2.bus.connection import Connection
from local2.bus.streams import REPLICAS, TOO_FEW_SERVERS, is_clustered
from local2.errors import BusError, LeaseHeldError

BUCKET = "local2-lease"
KEY = "stack"
LEASE_SECONDS = 15.0
"""Lifetime of a lease in seconds; the election of a leader blocks renewals for up to 7 s."""
RENEWAL_INTERVAL = 3.0
"""Seconds between two renewals: several may fail before the lease expires."""
ATTEMPTS = 3
"""Attempts to take a lease that expires, or is released, while it is being read."""
ANSWER_TIMEOUT = 2.0
"""Seconds to wait for a renewal, and for each answer of JetStream while taking the lease."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of the lease, identified by its data folder, which only one stack can lock.

    `ledger` identifies a ledger that several stacks share, and all of them together.
    """

    host: str
    folder: str
    device: int
    inode: int
    pid: int = 0
    ledger: str = ""

    @classmethod
    def for_folder(cls, folder: Path, ledger: str = "") -> Self:
        """Name this process as the holder, with its data folder."""
        there = folder.stat()
        return cls(
            host=socket.gethostname(),
            folder=str(folder.resolve()),
            device=there.st_dev,
            inode=there.st_ino,
            pid=os.getpid(),
            ledger=ledger,
        )

    def is_same(self, other: Self) -> bool:
        """Whether both use the same ledger, even in different processes."""
        if self.ledger or other.ledger:
            return self.ledger == other.ledger
        return msgspec.structs.replace(self, pid=0) == msgspec.structs.replace(other, pid=0)


class Lease:
    """The lease of one bus, as one stack sees it."""

    def __init__(self, bus: Connection, holder: Holder, *, in_memory: bool) -> None:
        """`in_memory`: the server belongs to this stack, so the lease need not survive its end."""
        self._bus = bus
        self._holder = holder
        self._storage = StorageType.MEMORY if in_memory else StorageType.FILE
        self._revision = 0
        self._until = 0.0
        self._patience = ANSWER_TIMEOUT

    @property
    def is_ending(self) -> bool:
        """Whether another stack may have the lease before the next renewal succeeds.

        One that stacks hold together is lost only once another stack has it. What they must agree
        on is in their ledger, so that they may go on while JetStream elects a leader, however long
        that takes.
        """
        if self._holder.ledger:
            return False
        return time.monotonic() > self._until - RENEWAL_INTERVAL - ANSWER_TIMEOUT

    async def acquire(self) -> None:
        """Take the lease, or take it over from an earlier process with the same data folder.

        Raises:
            LeaseHeldError: Another stack holds it.
            BusError: The server has no JetStream, or does not answer.
        """
        for _ in range(ATTEMPTS - 1):
            with suppress(_ChangedError):
                return await self._take()
        return await self._take()

    async def renew(self, *, patience: float = ANSWER_TIMEOUT) -> None:
        """Extend the lease; acquire it again if it has expired. Raises what `acquire` raises.

        `patience`: seconds to wait for each answer of JetStream.
        """
        began = time.monotonic()
        self._patience = patience
        try:
            with self._translate_errors():
                bucket = await self._bucket()
                self._revision = await bucket.update(
                    KEY, msgspec.json.encode(self._holder), self._revision
                )
        except _ChangedError:
            await self.acquire()
        else:
            self._until = began + LEASE_SECONDS

    async def release(self) -> None:
        """Let the next stack take the lease at once, if the server answers.

        A lease that is held together is left to the others, and expires with the last one.
        """
        if self._holder.ledger:
            return
        with suppress(BusError), self._translate_errors():
            await (await self._bucket()).delete(KEY, self._revision)

    async def _take(self) -> None:
        began = time.monotonic()
        with self._translate_errors():
            bucket = await self._bucket()
            try:
                self._revision = await bucket.create(KEY, msgspec.json.encode(self._holder))
            except nats.js.errors.KeyWrongLastSequenceError:
                entry = await bucket.get(KEY)
                holder = msgspec.json.decode(entry.value or b"", type=Holder)
                if not holder.is_same(self._holder):
                    raise LeaseHeldError(
                        f"Another stack serves the bus at {self._bus.url}: "
                        f"process {holder.pid} on {holder.host}, in {holder.folder}.",
                        remedy="Use that stack, or give this one another bus: `url` in "
                        "config/bus.yaml. If that stack was killed, its lease expires after "
                        f"{LEASE_SECONDS:.0f} s.",
                    ) from None
                self._revision = await bucket.update(
                    KEY, msgspec.json.encode(self._holder), entry.revision
                )
        self._until = began + LEASE_SECONDS

    async def _bucket(self) -> KeyValue:
        jetstream = self._bus.client.jetstream(timeout=self._patience)
        try:
            return await jetstream.key_value(BUCKET)
        except nats.js.errors.BucketNotFoundError:
            create = partial(
                jetstream.create_key_value,
                bucket=BUCKET,
                ttl=LEASE_SECONDS,
                history=1,
                storage=self._storage,
            )
            if not is_clustered(self._bus):
                return await create()
            try:
                return await create(replicas=REPLICAS)
            except nats.js.errors.APIError as error:
                if error.err_code not in TOO_FEW_SERVERS:
                    raise
                return await create()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn errors of nats-py into BusError."""
        try:
            yield
        except (
            nats.js.errors.KeyWrongLastSequenceError,
            nats.js.errors.KeyNotFoundError,
        ) as error:
            raise _ChangedError(
                f"The lease of the bus at {self._bus.url} is changing hands.", remedy="Try again."
            ) from error
        except (nats.errors.Error, TimeoutError, msgspec.MsgspecError) as error:
            raise BusError(
                f"The NATS server at {self._bus.url} grants no lease: {error!r}.",
                remedy="It needs JetStream: start it with `jetstream { … }`, or leave `url` empty "
                "for the embedded one.",
            ) from error


class _ChangedError(BusError):
    """Another stack has changed the key in the meantime."""
