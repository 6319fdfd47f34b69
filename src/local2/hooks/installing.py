"""Install hooks in a client's settings, and remove exactly what was installed.

A plan shows the change before the file is written. Additions to a file are recorded in the user's
own folder, because a client's settings are no place for our bookkeeping.
"""

import stat
from difflib import unified_diff
from pathlib import Path

import msgspec

from local2.atomic_file import write_atomically
from local2.errors import ConfigError, UnwritableError
from local2.home import MEMORY_FOLDER, own_home
from local2.hook_files import PromptCounts
from local2.hooks.clients.client import Client, Scope
from local2.hooks.registration import (
    entries_of,
    is_outdated,
    read_settings,
    registered,
    with_hooks,
    without_hooks,
)
from local2.hooks.state import save_file
from local2.protocol.envelope import content_id


class InstallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The additions to a file, and whether the file and its folder were created for them."""

    file: str
    additions: list[str]
    new_file: bool
    new_folder: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a file. None as text means that the file does not exist."""

    file: Path
    before: str | None
    after: str | None
    record: InstallRecord | None = None

    @property
    def diff(self) -> str:
        """The change as a unified diff, empty if nothing changes."""
        name = str(self.file)
        before, after = ((text or "").splitlines() for text in (self.before, self.after))
        return "\n".join(unified_diff(before, after, fromfile=name, tofile=name, lineterm=""))


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """Which of a client's hooks are installed in one of its settings files.

    `outdated`: the events whose hooks an earlier local2 installed; they do nothing. `prompts`: how
    many prompts to the client got no context, with the memory that hooks use here.
    """

    client: str
    scope: Scope
    file: str
    events: list[str]
    missing: list[str]
    outdated: list[str]
    prompts: PromptCounts | None = None


def plan_install(client: Client, scope: Scope, options: list[str]) -> Plan:
    """Plan to put all hooks of a client into its settings, with these options.

    Raises:
        ConfigError: The settings do not have the client's format.
    """
    file, before = _settings(client, scope)
    text, entries = before or "", entries_of(client, options)
    if before is not None and before.strip():
        found = registered(client, read_settings(file, text))
        if {event: listed for event, listed in found.items() if listed} == {
            event: [entry] for event, entry in entries.items()
        }:
            return Plan(file=file, before=before, after=before)
        if any(found.values()):  # hooks from another version, or with other options
            text = without_hooks(client, file, text, _recorded_additions(file))
    changed = with_hooks(client, file, text, entries)
    earlier = _read_record(file)
    record = InstallRecord(
        file=str(file),
        additions=changed.additions,
        new_file=earlier.new_file if earlier else before is None,
        new_folder=earlier.new_folder if earlier else not file.parent.exists(),
    )
    return Plan(file=file, before=before, after=changed.text, record=record)


def plan_uninstall(client: Client, scope: Scope) -> Plan:
    """Plan to remove a client's hooks from its settings, and leave the rest as it is.

    Raises:
        ConfigError: The settings do not have the client's format.
    """
    file, before = _settings(client, scope)
    if before is None or not before.strip():
        return Plan(file=file, before=before, after=before)
    settings = read_settings(file, before)
    if not any(registered(client, settings).values()):
        return Plan(file=file, before=before, after=before)
    after = without_hooks(client, file, before, _recorded_additions(file))
    earlier = _read_record(file)
    if (
        earlier is not None
        and earlier.new_file
        and (not after.strip() or msgspec.json.decode(after) in ({}, dict(client.new_file)))
    ):
        return Plan(file=file, before=before, after=None)
    return Plan(file=file, before=before, after=after)


def apply_plan(plan: Plan) -> None:
    """Change the file, completely or not at all, and keep its mode.

    Raises:
        UnwritableError: It cannot be written.
    """
    earlier, record_file = _read_record(plan.file), _record_file(plan.file)
    try:
        if plan.after is None:
            plan.file.unlink()
            if earlier is not None and earlier.new_folder and not any(plan.file.parent.iterdir()):
                plan.file.parent.rmdir()
        elif plan.after != plan.before:
            plan.file.parent.mkdir(parents=True, exist_ok=True)
            mode = stat.S_IMODE(plan.file.stat().st_mode) if plan.file.exists() else None
            write_atomically(plan.file, plan.after.encode(), mode=mode)
        if plan.record is not None:
            save_file(record_file, msgspec.json.encode(plan.record))
        elif plan.after != plan.before:
            record_file.unlink(missing_ok=True)
    except OSError as error:
        raise UnwritableError(plan.file, error, instead="another --scope") from error


def installed(client: Client, scope: Scope) -> Installation:
    """Find out which of a client's hooks are installed.

    Raises:
        ConfigError: The settings do not have the client's format.
    """
    file, text = _settings(client, scope)
    found = registered(client, read_settings(file, text)) if text and text.strip() else {}
    events = [event for event in client.events if found.get(event)]
    return Installation(
        client=client.name,
        scope=scope,
        file=str(file),
        events=events,
        missing=[event for event in client.events if event not in events],
        outdated=[event for event in events if any(map(is_outdated, found[event]))],
    )


def _settings(client: Client, scope: Scope) -> tuple[Path, str | None]:
    """The settings file, with links resolved, and its text; None if it does not exist."""
    file = client.settings_file(scope).expanduser().absolute().resolve()
    try:
        return file, file.read_bytes().decode()
    except FileNotFoundError:
        return file, None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", remedy="Repair it.") from error


def _record_file(file: Path) -> Path:
    return own_home() / MEMORY_FOLDER / "hooks" / "installed" / f"{content_id(str(file))}.json"


def _read_record(file: Path) -> InstallRecord | None:
    try:
        return msgspec.json.decode(_record_file(file).read_bytes(), type=InstallRecord)
    except (OSError, msgspec.MsgspecError):
        return None


def _recorded_additions(file: Path) -> list[str]:
    earlier = _read_record(file)
    return earlier.additions if earlier else []
