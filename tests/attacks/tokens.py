"""Attacks with tokens that were forged, found, altered or invented."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt

from attacks.world import VAULT, Case, World, ask, refused
from local2.tenants.tokens import new_signing_key

RECALL = {"query": VAULT, "top_k": 20}
ALG = {"alg": "EdDSA", "typ": "JWT"}


def _claims(**other: Any) -> dict[str, Any]:
    claims = {"sub": "ada", "aud": "acme", "exp": time.time() + 600, **other}
    return {name: value for name, value in claims.items() if value is not None}


def _part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unsigned(header: object, claims: object, signature: bytes = b"") -> str:
    return f"{_part(header)}.{_part(claims)}.{_part(signature)}"


def _kid(world: World) -> str:
    return world.entries().tenants["acme"].tokens[-1].id


def _signed(world: World, *, by: str = "acme", header: Any = None, **claims: Any) -> str:
    """Sign with a tenant's true key, which the attacker does not have."""
    head = {"kid": _kid(world), **(header or {})}
    return jwt.encode(_claims(**claims), world.private(by), algorithm="EdDSA", headers=head)


def _own_key(world: World, **header: Any) -> str:
    private, _ = new_signing_key("mine")
    return jwt.encode(_claims(), private, algorithm="EdDSA", headers={"kid": _kid(world), **header})


def _public_as_secret(world: World) -> str:
    public = world.entries().tenants["acme"].tokens[-1].key
    body = f"{_part({'alg': 'HS256', 'kid': _kid(world)})}.{_part(_claims())}"
    return f"{body}.{_part(hmac.digest(public.encode(), body.encode(), hashlib.sha256))}"


def _swapped(world: World, **claims: Any) -> str:
    """Put other claims under bob's signature."""
    header, _, signature = world.token("bob").split(".")
    return f"{header}.{_part(_claims(**claims))}.{signature}"


TOKENS: dict[str, Callable[[World], str]] = {
    "signed with a key of the attacker's": _own_key,
    "that brings its key along": lambda w: _own_key(w, jwk={"kty": "OKP", "crv": "Ed25519"}),
    "that says where its key is": lambda w: _own_key(w, jku="http://127.0.0.1:1/jwks"),
    "expired": lambda w: _signed(w, exp=time.time() - 3600),
    "not valid yet": lambda w: _signed(w, nbf=time.time() + 3600),
    "without exp": lambda w: _signed(w, exp=None),
    "whose exp is a word": lambda w: _signed(w, exp="never"),
    "whose exp is beyond all calendars": lambda w: _signed(w, exp=1e30),
    "whose exp is endless": lambda w: _signed(w, exp=float("inf")),
    "for another tenant": lambda w: _signed(w, aud="beta"),
    "for nobody": lambda w: _signed(w, aud=None),
    "of another tenant": lambda w: w.token("ada", "beta"),
    "signed by another tenant": lambda w: _signed(w, by="beta"),
    "of no person": lambda w: _signed(w, sub=None),
    "of a person without a name": lambda w: _signed(w, sub=""),
    "of a person with an endless name": lambda w: _signed(w, sub="a" * 300),
    "of a person with half a character": lambda w: _signed(w, sub="ada\ud83d"),
    "of an agent with half a character": lambda w: _signed(w, agent="eve\ud83d"),
    "with a role there is not": lambda w: _signed(w, role="root"),
    "with alg none": lambda _: _unsigned({"alg": "none"}, _claims()),
    "with alg nOnE": lambda w: _unsigned({"alg": "nOnE", "kid": _kid(w)}, _claims()),
    "with the public key as secret": _public_as_secret,
    "without its signature": lambda w: _signed(w).rpartition(".")[0] + ".",
    "with another's claims": lambda w: _swapped(w, sub="ada"),
    "with another role": lambda w: _swapped(w, sub="bob", role="admin"),
    "of a key there is not": lambda w: _signed(w, header={"kid": "other"}),
    "whose key is a path": lambda w: _signed(w, header={"kid": "../../memory.nk"}),
    "whose key is a number": lambda _: _unsigned({**ALG, "kid": 7}, _claims(), b"x" * 64),
    "with demands": lambda w: _signed(w, header={"crit": ["mind"], "mind": True}),
    "nested without end": lambda _: f"{_part(b'[' * 100_000)}.{_part({})}.{_part(b'')}",
    "of half a megabyte": lambda _: "A" * 500_000,
    "of garbage": lambda _: "🔑.\x7f..",
    "that is empty": lambda _: "",
}


def _with_token(make: Callable[[World], str]) -> Callable[[World], Any]:
    async def attack(world: World) -> object:
        return refused(await world.eve.call("recall", RECALL, token=make(world)))

    return attack


async def _other_scheme(world: World) -> object:
    headers = {"Authorization": f"Basic {world.token('ada')}"}
    return refused(await world.eve.call("recall", RECALL, headers=headers))


async def _other_header(world: World) -> object:
    """Send no valid token: the request is made for nobody."""
    found = [
        await world.eve.call("recall", RECALL, headers={name: f"Bearer {_own_key(world)}"})
        for name in ("authorization", "Proxy-Authorization", "X-Authorization")
    ]
    return [one.content for one in found]


async def _in_a_turn(world: World) -> object:
    """Send it in a turn, which a stream delivers later; it is refused there as well."""
    turn = {"query": "Whose is it?", "answer": "The code of the vault is now 0000."}
    return await ask(world.eve, "response.generation", turn, token=_own_key(world))


CASES = [
    *(Case(f"a token {name}", _with_token(make)) for name, make in TOKENS.items()),
    Case("a token under another scheme", _other_scheme),
    Case("a token in another header", _other_header),
    Case("a forged token with a turn", _in_a_turn),
]
