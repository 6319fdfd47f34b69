"""HTTP clients of an endpoint, one for the event loop and one for a thread."""

import asyncio
import time
from typing import Any, Self

import httpx
import msgspec

from local.endpoint.address import Endpoint
from local.endpoint.failures import failure, unreachable
from local.endpoint.retries import ATTEMPTS, RateLimit, Retries

CONNECT_SECONDS = 5.0

Json = dict[str, Any]


class AsyncEndpointClient:
    """Sends requests from the event loop; get it from `open`."""

    def __init__(self, endpoint: Endpoint, client: httpx.AsyncClient) -> None:
        self.endpoint = endpoint
        self._client = client
        self._limit = RateLimit()

    @classmethod
    async def open(cls, endpoint: Endpoint) -> Self:
        # In a thread, because it reads the certificates of the system. No timeouts of its own for
        # reading: they bound each read, and `Retries` the whole.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        client = await asyncio.to_thread(
            httpx.AsyncClient, headers=endpoint.headers, timeout=timeout
        )
        return cls(endpoint, client)

    async def get(self, path: str, *, within: float) -> bytes:
        """Ask for something once.

        Raises:
            EndpointError: No answer in time, or an error status.
        """
        request = self._client.build_request("GET", self.endpoint.at(path))
        return (await self._answer(request, "", within, attempts=1)).content

    async def post(
        self, path: str, body: Json, *, within: float, attempts: int = ATTEMPTS
    ) -> bytes:
        """Send a body that names a model.

        Raises:
            EndpointError: No answer in time, however often it was sent, or an error status.
        """
        request = self._request(path, body)
        return (await self._answer(request, body["model"], within, attempts=attempts)).content

    async def begin(self, path: str, body: Json, *, within: float) -> httpx.Response:
        """Send a body that names a model; the answer comes in pieces. Close it: that hangs up.

        Raises:
            EndpointError: It did not begin in time, however often it was asked for, or has an error
                status.
        """
        request = self._request(path, body)
        return await self._answer(request, body["model"], within, whole=False)

    async def close(self) -> None:
        await self._client.aclose()

    def _request(self, path: str, body: Json) -> httpx.Request:
        content = msgspec.json.encode(body)
        return self._client.build_request("POST", self.endpoint.at(path), content=content)

    async def _answer(
        self,
        request: httpx.Request,
        model: str,
        within: float,
        *,
        attempts: int = ATTEMPTS,
        whole: bool = True,
    ) -> httpx.Response:
        """An answer with a status of success, its content read if the whole is wanted."""
        retries = Retries(self.endpoint, self._limit, within=within, attempts=attempts)
        while True:
            await asyncio.sleep(retries.pause())
            try:
                async with asyncio.timeout(retries.left):
                    response = await self._client.send(request, stream=True)
                    self._limit.note(response.status_code, response.headers)
                    if response.is_success and not whole:
                        return response
                    content = await _content(response)
            except TimeoutError as error:
                raise retries.silent() from error
            except httpx.HTTPError as error:
                problem = unreachable(self.endpoint, error)
            else:
                if response.is_success:
                    return response
                problem = failure(self.endpoint, response.status_code, content, model)
            retries.failed(problem)


async def _content(response: httpx.Response) -> bytes:
    try:
        return await response.aread()
    finally:
        await response.aclose()


class EndpointClient:
    """Sends requests from a thread, one at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = httpx.Client(headers=endpoint.headers)
        self._limit = RateLimit()

    def post(
        self, path: str, body: Json, *, within: float, patience: float, attempts: int = ATTEMPTS
    ) -> bytes:
        """Send a body that names a model.

        Args:
            path: Of the operation.
            body: Sent as JSON.
            within: Seconds for all attempts.
            patience: Seconds that one pause between them may last.
            attempts: How often it is sent at most.

        Raises:
            EndpointError: No answer in time, however often it was sent, or an error status.
        """
        url, content = self.endpoint.at(path), msgspec.json.encode(body)
        retries = Retries(
            self.endpoint, self._limit, within=within, patience=patience, attempts=attempts
        )
        while True:
            time.sleep(retries.pause())
            try:
                status, answer = self._exchange(url, content, retries)
            except httpx.ReadTimeout as error:
                raise retries.silent() from error
            except httpx.HTTPError as error:
                problem = unreachable(self.endpoint, error)
            else:
                if httpx.codes.is_success(status):
                    return answer
                problem = failure(self.endpoint, status, answer, body["model"])
            retries.failed(problem)

    def close(self) -> None:
        self._client.close()

    def _exchange(self, url: httpx.URL, content: bytes, retries: Retries) -> tuple[int, bytes]:
        """Status and content; httpx bounds each read, and this all of them."""
        left = retries.left
        ends = time.monotonic() + left
        timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))
        with self._client.stream("POST", url, content=content, timeout=timeout) as response:
            self._limit.note(response.status_code, response.headers)
            pieces: list[bytes] = []
            for piece in response.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > ends:
                    raise httpx.ReadTimeout("It sends slower than anybody waits.")
            return response.status_code, b"".join(pieces)
