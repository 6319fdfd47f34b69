"""Installs hooks in a client's settings, and removes exactly what was installed.

A plan is made first and shows the change; then the file is written. What was put into a file is
recorded in the user's own folder, since other people's settings are no place for notes of ours.
"""

import shutil
from difflib import unified_diff
from pathlib import Path

import msgspec

from local.errors import ConfigError, UnwritableError
from local.home import MARK, own_home
from local.hooks.clients.client import Client, Scope
from local.hooks.registration import (
    entries_of,
    read_settings,
    registered,
    with_hooks,
    without_hooks,
)
from local.hooks.state import write_whole
from local.protocol.envelope import content_id


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An addition to a file. `new_file`, `new_folder`: which of the two did not exist before."""

    file: str
    additions: list[str]
    new_file: bool
    new_folder: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a file; None stands for a file that does not exist."""

    file: Path
    before: str | None
    after: str | None
    record: Record | None = None

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty for none."""
        name = str(self.file)
        before, after = ((text or "").splitlines() for text in (self.before, self.after))
        return "\n".join(unified_diff(before, after, fromfile=name, tofile=name, lineterm=""))


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a client's hooks that is in one of its files."""

    client: str
    scope: Scope
    file: str
    events: list[str]
    missing: list[str]


def plan_install(client: Client, scope: Scope, options: list[str]) -> Plan:
    """Plan to put all hooks of a client into its settings, with these options.

    Raises:
        ConfigError: The settings are not as the client has them.
    """
    file, before = _settings(client, scope)
    text, entries = before or "", entries_of(client, options)
    if before is not None and before.strip():
        found = registered(client, read_settings(file, text))
        if {event: listed for event, listed in found.items() if listed} == {
            event: [entry] for event, entry in entries.items()
        }:
            return Plan(file=file, before=before, after=before)
        if any(found.values()):  # hooks of another version, or with other options
            text = without_hooks(client, file, text, _additions(file))
    changed = with_hooks(client, file, text, entries)
    earlier = _recorded(file)
    record = Record(
        file=str(file),
        additions=changed.additions,
        new_file=earlier.new_file if earlier else before is None,
        new_folder=earlier.new_folder if earlier else not file.parent.exists(),
    )
    return Plan(file=file, before=before, after=changed.text, record=record)


def plan_uninstall(client: Client, scope: Scope) -> Plan:
    """Plan to remove a client's hooks from its settings, and leave the rest as it is.

    Raises:
        ConfigError: The settings are not as the client has them.
    """
    file, before = _settings(client, scope)
    if before is None or not before.strip():
        return Plan(file=file, before=before, after=before)
    settings = read_settings(file, before)
    if not any(registered(client, settings).values()):
        return Plan(file=file, before=before, after=before)
    after = without_hooks(client, file, before, _additions(file))
    earlier = _recorded(file)
    if earlier is not None and earlier.new_file and _is_bare(client, after):
        return Plan(file=file, before=before, after=None)
    return Plan(file=file, before=before, after=after)


def carry_out(plan: Plan) -> None:
    """Change the file, completely or not at all; its mode stays as it is.

    Raises:
        UnwritableError: It cannot be written.
    """
    earlier, note = _recorded(plan.file), _record_of(plan.file)
    try:
        if plan.after is None:
            plan.file.unlink()
            if earlier is not None and earlier.new_folder and not any(plan.file.parent.iterdir()):
                plan.file.parent.rmdir()
        elif plan.after != plan.before:
            _replace(plan.file, plan.after)
        if plan.record is not None:
            write_whole(note, msgspec.json.encode(plan.record))
        elif plan.after != plan.before:
            note.unlink(missing_ok=True)
    except OSError as error:
        raise UnwritableError(plan.file, error, instead="another --scope") from error


def installed(client: Client, scope: Scope) -> Installation:
    """Return the installed hooks.

    Raises:
        ConfigError: The settings are not as the client has them.
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
    )


def _settings(client: Client, scope: Scope) -> tuple[Path, str | None]:
    """Return the file, behind any links, and its text."""
    file = client.settings_file(scope).expanduser().absolute().resolve()
    try:
        return file, file.read_bytes().decode()
    except FileNotFoundError:
        return file, None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", remedy="Mend it.") from error


def _is_bare(client: Client, text: str) -> bool:
    """Return whether a file holds no more than a new one would without hooks."""
    return not text.strip() or msgspec.json.decode(text) in ({}, dict(client.new_file))


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.local2-new")
    temporary.write_bytes(text.encode())
    if file.exists():
        shutil.copymode(file, temporary)
    temporary.replace(file)


def _record_of(file: Path) -> Path:
    return own_home() / MARK / "hooks" / "installed" / f"{content_id(str(file))}.json"


def _recorded(file: Path) -> Record | None:
    try:
        return msgspec.json.decode(_record_of(file).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def _additions(file: Path) -> list[str]:
    earlier = _recorded(file)
    return earlier.additions if earlier else []
