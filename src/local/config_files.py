"""The files of `config/`: settings are read from them once, other YAML by the same rules.

An unknown key is refused, in a file and in the environment: a misspelled setting would otherwise
have no effect, and nobody would notice. Errors about YAML name the place and do not quote its
content. PyYAML is imported by what uses it: a hook, which mostly finds no file, has no time for it.
"""

# ruff: noqa: PLC0415

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from local.errors import ConfigError
from local.settings import (
    HOME_VARIABLE,
    BusSettings,
    GeneratorSettings,
    LimitSettings,
    McpSettings,
    MemorySettings,
    RolesSettings,
    Settings,
    TelemetrySettings,
)

ENVIRONMENT_PREFIX = "LOCAL2_"

T = TypeVar("T", bound=msgspec.Struct)


def load_settings(
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    home: Path = Path(),
) -> Settings:
    """Read the settings.

    Args:
        folder: Holds the YAML files. None means `config` in `home` if it exists, else only
            defaults.
        environment: Overrides, such as `LOCAL2_MEMORY__TOP_K=10`; values are read as YAML.
        home: Where relative paths begin; by default that is the current folder.

    Raises:
        ConfigError: A file cannot be read, or a key or value does not match the Structs.
    """
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}.", remedy="Name one that holds bus.yaml.")
    sections = {
        name: _read_file((folder or home / "config") / f"{name}.yaml")
        for name in Settings.__struct_fields__
    }
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable != HOME_VARIABLE:
            _override(sections, variable, value)
    return Settings(
        bus=_convert(sections, "bus", BusSettings, home),
        memory=_convert(sections, "memory", MemorySettings, home),
        roles=_convert(sections, "roles", RolesSettings, home),
        generator=_convert(sections, "generator", GeneratorSettings, home),
        telemetry=_convert(sections, "telemetry", TelemetrySettings, home),
        limits=_convert(sections, "limits", LimitSettings, home),
        mcp=_convert(sections, "mcp", McpSettings, home),
    )


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    Raises:
        ConfigError: It is not YAML, or a number or a date in it is not valid.
    """
    import yaml

    try:
        return yaml.safe_load(text)
    except Exception as error:  # noqa: BLE001 - PyYAML lets through what int() and others raise
        raise ConfigError(f"It is not YAML{_place(error)}.") from None


def to_yaml(value: Any) -> str:
    """Return the value as YAML in one line, which `read_yaml` reads back."""
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).partition("\n...")[0]


def read_yaml_file(path: Path) -> Any:
    """Return the value of a YAML file.

    Raises:
        ConfigError: It cannot be read, or is not YAML; the error names the file.
        FileNotFoundError: It is not there.
    """
    try:
        return read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except ConfigError as error:
        raise ConfigError(f"Cannot read {path}: {error.message}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}") from error


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml_file(path)
    except FileNotFoundError:
        return {}
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, not a {type(content).__name__}.")
    return content


def _override(sections: dict[str, dict[str, Any]], variable: str, value: str) -> None:
    section, _, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
    if section not in sections or not key:
        known = ", ".join(f"{ENVIRONMENT_PREFIX}{name.upper()}__<KEY>" for name in sections)
        raise ConfigError(f"The environment variable {variable} names no setting.", remedy=known)
    try:
        sections[section][key] = read_yaml(value) if value else ""
    except ConfigError as error:
        raise ConfigError(
            f"{variable}: {error.message}",
            remedy="Put a text with special characters in quotes of its own: '\"…\"'.",
        ) from None


def _without_empty(section: dict[str, Any], into: type[msgspec.Struct]) -> dict[str, Any]:
    """Replace an empty value by None where a setting may be None, such as `reranker_url`."""
    nullable = {
        field.name for field in msgspec.structs.fields(into) if type(None) in get_args(field.type)
    }
    return {
        key: None if value == "" and key in nullable else value for key, value in section.items()
    }


def _with_switches(section: dict[str, Any], into: type[msgspec.Struct]) -> dict[str, Any]:
    """YAML reads `on` and `off` as true and false."""
    switches = {
        field.name for field in msgspec.structs.fields(into) if "on" in get_args(field.type)
    }
    return {
        key: ("on" if value else "off") if key in switches and isinstance(value, bool) else value
        for key, value in section.items()
    }


def _as_path(kind: type, value: Any) -> Path:
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        with suppress(RuntimeError):  # there is no such user
            return Path(value).expanduser()
    raise msgspec.ValidationError(f"Expected a path, got `{value!r}`")


def _beginning(home: Path, section: T) -> T:
    """Make the section's relative paths begin at home."""
    values = ((name, getattr(section, name)) for name in section.__struct_fields__)
    paths = {name: home / value for name, value in values if isinstance(value, Path)}
    return msgspec.structs.replace(section, **paths)


def _convert(sections: Mapping[str, dict[str, Any]], name: str, into: type[T], home: Path) -> T:
    try:
        section = _with_switches(_without_empty(sections[name], into), into)
        return _beginning(home, msgspec.convert(section, into, dec_hook=_as_path))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"config/{name}.yaml or {ENVIRONMENT_PREFIX}{name.upper()}__*: {error}.",
            remedy=f"Known keys: {', '.join(into.__struct_fields__)}.",
        ) from error


def _place(error: Exception) -> str:
    """Return where or why it failed. YAML's own message quotes the content: perhaps a password."""
    import yaml

    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f" (line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1})"
    return "" if isinstance(error, yaml.YAMLError) else f": {str(error).partition(':')[0]}"
