"""Seeds, signing keys and tokens stay in their files: they are in no log, answer or other file."""

import json
from pathlib import Path

from local2.logs import logging_to
from local2.stack.app import open_stack
from tenant_agents import ACCOUNTS, agent, token_for, with_tenants
from waiting import eventually


async def test_keys_and_tokens_appear_in_no_other_file_and_no_answer(tmp_path: Path) -> None:
    settings = with_tenants(tmp_path, "acme")
    accounts = tmp_path / ACCOUNTS
    token = token_for(tmp_path, "acme", "ada")
    expired = token_for(tmp_path, "acme", "ada", "--days", "0")
    fact = {"topic": "user.city", "content": "Oslo"}
    with logging_to(tmp_path / "local2.log", level="debug"):
        async with (
            open_stack(settings, log_folder=tmp_path) as stack,
            agent(tmp_path, stack.url, "acme") as connected,
        ):
            everything = await connected.receive_from("tool.result.>")
            events = await connected.receive_from("memory.>")
            turns = await connected.receive_from("response.>")
            answers = [
                await connected.call("save_topic", fact, token=token),
                await connected.call("save_topic", {"topic": 1}, token=token),
                await connected.call("recall", {"query": "city"}, token=expired),
                await connected.call("recall", {"query": "city"}, token=f"{token}x"),
            ]
            await connected.client.request(
                "query.received",
                json.dumps({"payload": {"query": "Remember that my boat is Lark."}}).encode(),
                headers={"Authorization": f"Bearer {token}"},
                timeout=10,
            )
            await eventually(lambda: any(one.subject == "response.generation" for one in turns))
            await eventually(lambda: any(one.subject == "memory.saved" for one in events))
    published = [*(repr(one) for one in answers), *(f"{m.headers} {m.data!r}" for m in everything)]
    published += [f"{m.headers} {m.data!r}" for m in (*events, *turns)]

    seeds = [one.read_text().strip() for one in accounts.rglob("*.nk")]
    (signing,) = accounts.rglob("*.pem")
    secrets = [*seeds, "".join(signing.read_text().splitlines()[1:-1])]
    files = [one for one in tmp_path.rglob("*") if one.is_file() and accounts not in one.parents]
    assert len(seeds) == 4
    for secret in secrets:
        assert [one for one in files if secret.encode() in one.read_bytes()] == []
        assert [one for one in published if secret in one] == []
    for shown in (token, expired):
        # JetStream stores a turn as received until the memory has it; its files are not compared.
        plain = [one for one in files if "jetstream" not in one.parts]
        assert [one for one in plain if shown.encode() in one.read_bytes()] == []
        assert [one for one in published if shown in one] == []


async def test_files_with_keys_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    with_tenants(tmp_path, "acme")
    accounts = tmp_path / ACCOUNTS
    modes = {one.name: one.stat().st_mode & 0o777 for one in accounts.rglob("*")}
    assert {mode for name, mode in modes.items() if "." in name} == {0o600}
    assert {mode for name, mode in modes.items() if "." not in name} == {0o700}
    assert accounts.stat().st_mode & 0o777 == 0o700
