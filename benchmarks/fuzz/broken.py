"""Broken inputs: valid ones with a few faults each, reproducible from the same random numbers."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

DEEPER = 0.85
"""Probability that a fault is inside a value rather than in the value itself."""
INSIDE = 0.8
"""Probability that such a fault is in a part that has parts itself."""
FURTHER = 0.3
"""Probability of a further fault; code often checks only for a single one."""
IN_BYTES = 0.15
"""Probability that the bytes are broken as well."""
DEEP = 3_000


def _raw(text: bytes) -> msgspec.Raw:
    return msgspec.Raw(text)


NUMBERS = (
    0, -1, 1, 3.5, -0.0, 1e308, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1,
    *map(_raw, (b"1e400", b"-1e400", b"1e-400", b"NaN", b"Infinity", b"01", b"0x10", b"1_0",
                b"18446744073709551616", b"9" * 400, b"9" * 5_000, b"1." + b"1" * 400)),
)  # fmt: skip
TIMES = (
    "2026-13-45", "2026-02-30T25:61:00Z", "0000-00-00", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59", "2026-05-01T10:00:00+99:99", "2026-W01", "20260501", "soon",
    "2026-05-01T10:00:00.123456789123Z", "2026garbage", "\u0662\u0660\u0662\u0666-05-01", "1e999",
    "-62135596801",
    "253402300800", "2026-05-01 10:00", "24:00",
)  # fmt: skip
NAMES = (
    "", " ", "*", ">", "a.*", "tool.request.>", "a b", "a\tb", "a\r\nb", "a\0b", "\ufeffa", "$SRV",
    "..", "../../etc/passwd", "~nobody", "~", "con", "x" * 256, "x" * 257, "Ő" * 300, "\u202ea",
    "e\u0301" * 90, "\U0001f600", "default", "system", "tout_" + "0" * 24, "user.", "user..a",
    "project." + "a" * 300, "'; DROP TABLE record; --", "%s%n", "{0}", "$user", "~[", "~(a+)+$",
)  # fmt: skip
TEXTS = (
    "\0", "\n", "x" * 5_000, "x" * 70_000, "null", "{}", "[]", '{"a": 1}', "[" * 500, "NaN", "true",
    "data:image/png;base64,AAAA", "AAA", "AAAA", "=", "\u2028", "\ufffe", "\x1b[2J", "a\x00" * 20,
    "session", "tenant", "user", "assistant", "recall", "2026-05-01T10:00:00Z",
)  # fmt: skip
FORMS: Sequence[Any] = (
    None, True, False, [], {}, [[]], [None], [{}], {"": None}, {"a": {"b": [1, "c"]}}, ["a", 1,
    None],
    {"type": "text", "text": "a"}, [{"type": "text", "text": 1}], {"name": None, "args": []},
    {"role": "user", "content": "a"}, {"type": "tool_use"}, {"functionCall": {"name": 7}},
    {"id": 2**60, "function": {"name": "a", "arguments": "{"}}, {"payload": {"args": {}}},
    *map(_raw, (
        b'"\\ud800"', b'{"\\udfff": "\\ud800\\ud800"}', b'"\\x"', b'"\xff\xfe"', b'"\xed\xa0\x80"',
        b"",
        b'{"a": 1, "a": 2}', b"[1,]", b"{,}", b"undefined", b"'a'", b"/* a */ 1", b'"a\nb"',
        b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP, b"[" * 400 + b"]" * 400,
    )),
)  # fmt: skip
ODD: Sequence[Any] = (*NUMBERS, *TIMES, *NAMES, *TEXTS, *FORMS)
ODD_KEYS = (
    "", "id", "type", "user", "tenant", "payload", "args", "session_id", "source", "content",
    "text",
    "name", "a", "__class__", "$ref", "$", "ok", "error", "role", "a.b", "\0", "ключ", "k" * 3_000,
)  # fmt: skip
YAML = (
    "", "null", "~", "[]", "{}", "[", "{", "&a [*a]", "*nobody", "!!int x", "!!float x",
    "!!set {a}",
    "!!timestamp soon", "2026-13-45", "2026-05-01T99:00:00Z", ".inf", ".nan", "-.inf", "0x_", "0b_",
    "0o9",
    "1:99:99", "!!binary /", "!!python/object/apply:os.getcwd []", "!unknown a", '"\\U00110000"',
    '"\\UFFFFFFFF"', '"\\ud800"', "'", '"', "|", "- a", "? [a]", "{[a]: b}", "<<: 7", "@", "`",
    "%YAML 9",
    "--- a", "...", "\t", "on", "off", "yes", "1_000", "9" * 5_000, "~nobody/a", "a\\0b", '"\\0"',
    "[" * 400 + "]" * 400, "[" * 500, "{a: " * 500, "&a [b], &c [*a, *a]", "a: b: c", "7", "-1",
    "text",
    "x" * 5_000, "1e400", "!!str 7", "!!omap [a]", "!!pairs [a]", "!!null x", "!!bool x",
)  # fmt: skip
HEADER_NAMES = (
    "traceparent", "Nats-Msg-Id", "Nats-Service-Error", "Nats-Service-Error-Code",
    "Local2-Signature",
    "Nats-Request-Info", "Authorization", "Status", "Description", "X", "", "a b", "ключ",
    "Nats-Sequence",
)  # fmt: skip
HEADER_VALUES = (
    b"", b" ", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"x" * 5_000,
    b"\xff\xfe",
    b"\xed\xa0\x80", "Ő".encode(), b"\0", b"a\tb", b"a\n b", b"a\rb", b"{}", b"-1", b"Bearer ",
    b":", b"503",
)  # fmt: skip
HEADER_BLOCKS = (
    b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    b"NATS/1.0 \r\n\r\n",
    b"NATS/1.0 200 \xff\r\n\r\n", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
    b"NATS/1.0 100 FlowControl\r\n\r\n",
    b"NATS/1.0 200 a\r\nb: c\r\n\r\n", b"NATS/1.0\r\nno colon\r\n\r\n", b"NATS/1.0\r\n: a\r\n\r\n",
    b"NATS/1.0",
    b"NATS/9.9\r\na: b\r\n\r\n", b"\xff" * 20, b"NATS/1.0\r\n" + b"a: b\r\n" * 2_000 + b"\r\n",
    b"NATS/1.0\n\n", b"NATS/1.0\r\na: b", b"\0",
)  # fmt: skip


def random_of(seed: int, number: int) -> Random:
    """Return random numbers that are the same each time."""
    return Random(seed << 32 | number)  # noqa: S311


class Breaker:
    """Adds randomly chosen faults to inputs."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def json(self, valid: Any) -> bytes:
        """Return a JSON value with faults; it may no longer be JSON."""
        broken = self._broken(valid)
        while self._likely(FURTHER):
            broken = self._broken(broken)
        return self.bytes(msgspec.json.encode(broken))

    def lines(self, valid: Sequence[Any]) -> bytes:
        """Return JSON lines, one of them with faults or in the wrong place."""
        lines = [msgspec.json.encode(line) for line in valid]
        at = self.random.randrange(len(lines))
        match self.random.randrange(8):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[self.random.randrange(len(lines))])
            case 2:
                self.random.shuffle(lines)
            case _:
                lines[at] = self.json(valid[at])
        end = self.random.choice((b"\n", b"\n", b"\r\n", b"\n\n", b"\r"))
        return self.bytes(end.join(lines))

    def yaml(self, valid: str) -> bytes:
        """Return the lines of a YAML file with faults."""
        lines = valid.splitlines()
        self._break_line(lines)
        while self._likely(FURTHER):
            self._break_line(lines)
        return self.bytes("\n".join(lines).encode())

    def headers(self) -> bytes:
        """Return a message's headers in wire format, most of them well formed."""
        if self._likely(FURTHER):
            return self.random.choice(HEADER_BLOCKS)
        some = range(self.random.randrange(1, 4))
        lines = [
            self.random.choice(HEADER_NAMES).encode() + b": " + self.random.choice(HEADER_VALUES)
            for _ in some
        ]
        return b"\r\n".join((b"NATS/1.0", *lines, b"", b""))

    def bytes(self, data: bytes) -> bytes:
        """Return the data, in some cases with faults at the level of bytes."""
        return self.random.choice(OF_BYTES)(self.random, data) if self._likely(IN_BYTES) else data

    def _likely(self, share: float) -> bool:
        return self.random.random() < share

    def _broken(self, value: Any) -> Any:
        """Return the value with one fault, in it or somewhere inside it."""
        if isinstance(value, dict) and value and self._likely(DEEPER):
            key = self._place(value)
            return {**value, key: self._broken(value[key])}
        if isinstance(value, list) and value and self._likely(DEEPER):
            at = self.random.randrange(len(value))
            return [*value[:at], self._broken(value[at]), *value[at + 1 :]]
        return self.random.choice(OF_VALUES)(self.random, value)

    def _place(self, value: dict[str, Any]) -> str:
        """Pick a field, preferably one with fields: of an envelope's many, its payload is one."""
        if self._likely(INSIDE):
            within = [key for key, each in value.items() if each and isinstance(each, dict | list)]
            if within:
                return self.random.choice(within)
        return self.random.choice(list(value))

    def _break_line(self, lines: list[str]) -> None:
        at = self.random.randrange(len(lines)) if lines else 0
        line = lines[at] if lines else ""
        odd = self.random.choice(YAML)
        key, colon, _ = line.partition(":")
        match self.random.randrange(10):
            case 0:
                del lines[at : at + 1]
            case 1:
                lines.insert(at, line)
            case 2:
                lines[at : at + 1] = [self.random.choice(("  ", "\t", " ")) + line]
            case 3:
                lines.insert(at, odd)
            case 4:
                lines[at : at + 1] = [line[: len(line) - len(line.lstrip())] + odd]
            case _:
                lines[at : at + 1] = [f"{key}{colon} {odd}"]


def _odd(random: Random, _: Any) -> Any:
    return random.choice(ODD)


def _less(random: Random, value: Any) -> Any:
    """Remove one of its fields, items or characters."""
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        return {name: each for name, each in value.items() if name != key}
    if isinstance(value, list) and value:
        at = random.randrange(len(value))
        return [*value[:at], *value[at + 1 :]]
    if isinstance(value, str) and value:
        at = random.randrange(len(value))
        return value[:at] + value[at + 1 :]
    return None


def _more(random: Random, value: Any) -> Any:
    """Add a field or an item that does not belong there."""
    if isinstance(value, dict):
        return {**value, random.choice(ODD_KEYS): random.choice(ODD)}
    return [*value, random.choice(ODD)] if isinstance(value, list) else [value, value]


def _twice(random: Random, value: Any) -> Any:
    """Duplicate a key."""
    if not (isinstance(value, dict) and value):
        return [value, value]
    again = {random.choice(list(value)): random.choice(ODD)}
    return _raw(msgspec.json.encode(value)[:-1] + b"," + msgspec.json.encode(again)[1:])


def _longer(random: Random, value: Any) -> Any:
    times = random.choice((2, 20, 300))
    if isinstance(value, list | str):
        return value * times
    if isinstance(value, int | float):
        return _raw(f"{value}".encode() + b"0" * times)
    return [value] * min(times, 20)


def _wrapped(random: Random, value: Any) -> Any:
    return [value] if random.random() < 0.5 else {random.choice(ODD_KEYS): value}


def _as_text(_: Random, value: Any) -> Any:
    return msgspec.json.encode(value).decode("utf-8", "replace")


OF_VALUES: Sequence[Callable[[Random, Any], Any]] = (
    _odd, _odd, _odd, _odd, _less, _less, _more, _twice, _longer, _wrapped, _as_text,
)  # fmt: skip
"""Odd values are chosen more often, since there are most of them."""


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _with(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    inserted = random.choice(
        (b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b'"', b"}", b"[", b",", b"\\")
    )
    return data[:at] + inserted + data[at:]


def _flipped(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data)) if data else 0
    return (
        data[:at]
        + bytes(byte ^ (1 << random.randrange(8)) for byte in data[at : at + 1])
        + data[at + 1 :]
    )


OF_BYTES: Sequence[Callable[[Random, bytes], bytes]] = (
    _cut, _with, _flipped,
    lambda _, data: b"\xef\xbb\xbf" + data,
    lambda _, data: data.decode("utf-8", "replace").encode("utf-16"),
    lambda _, data: data + data,
    lambda _, data: b" \r\n\t" + data + b"\0",
    lambda _, data: data[::-1],
    lambda random, _: random.randbytes(random.randrange(64)),
    lambda *_: b"",
)  # fmt: skip
