"""Read the settings from `config/*.yaml` and the environment, and YAML files in general.

Unknown keys are refused, in files and in the environment; otherwise a misspelled setting would
silently have no effect. Errors about YAML name the position without quoting the content. PyYAML is
imported lazily, because hooks, which mostly find no file, cannot afford the import.
"""

# ruff: noqa: PLC0415

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from local2.errors import ConfigError
from local2.settings import HOME_VARIABLE, Settings

ENVIRONMENT_PREFIX = "LOCAL2_"

_PATH = re.compile(r"at `\$\.(?=\w+`$)")
_INVALID_CHOICE = re.compile(r"^Invalid enum value .* at `(\w+)`$")
_INVALID_FORM = re.compile(r"^Expected `str` matching regex .* at `(\w+)`$")

T = TypeVar("T", bound=msgspec.Struct)


def load_settings(
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    home: Path = Path(),
) -> Settings:
    """Read the settings.

    Args:
        folder: The folder with the YAML files. None means `config` in `home` if it exists, else
            only defaults.
        environment: Overrides, such as `LOCAL2_MEMORY__TOP_K=10`; values are parsed as YAML.
        home: The folder that relative paths start from; by default the current folder.

    Raises:
        ConfigError: A file cannot be read, a key is unknown, or a value is invalid.
    """
    if folder is not None and not folder.is_dir():
        raise ConfigError(
            f"There is no folder {folder}.",
            remedy="Name the folder with bus.yaml and the other settings.",
        )
    sections: dict[str, dict[str, Any]] = {}
    for name in Settings.__struct_fields__:
        path, content = (folder or home / "config") / f"{name}.yaml", None
        with suppress(FileNotFoundError):
            content = read_yaml_file(path)
        if not isinstance(content, dict | None):
            found = type(content).__name__
            raise ConfigError(f"{path} must hold `key: value` lines, not a {found}.")
        sections[name] = content or {}
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable != HOME_VARIABLE:
            section, _, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
            if section not in sections or not key:
                known = ", ".join(f"{ENVIRONMENT_PREFIX}{name.upper()}__<KEY>" for name in sections)
                raise ConfigError(
                    f"The environment variable {variable} names no setting.", remedy=known
                )
            try:
                sections[section][key] = read_yaml(value) if value else ""
            except ConfigError as error:
                raise ConfigError(
                    f"{variable}: {error.message}",
                    remedy="Put a text with special characters in double quotes inside the "
                    "value: '\"…\"'.",
                ) from None
    converted = {
        field.name: _convert_section(sections, field.name, field.type, home)
        for field in msgspec.structs.fields(Settings)
    }
    return Settings(**converted)


def read_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        ConfigError: It is not YAML, repeats a key, or contains an invalid number or date.
    """
    import yaml

    def place(mark: yaml.Mark | None) -> str:
        return f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            """Refuse repeated keys, of which PyYAML would only keep the last."""
            seen = set[str]()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        raise ConfigError(f"A key is repeated{place(key.start_mark)}.")
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - it is a SafeLoader
    except ConfigError:
        raise
    except yaml.YAMLError as error:  # its message would quote content, maybe a password
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        raise ConfigError(f"It is not YAML{place(mark)}.") from None
    except Exception as error:  # noqa: BLE001 - PyYAML lets errors of int() and others through
        raise ConfigError(f"It is not YAML: {str(error).partition(':')[0]}.") from None


def to_yaml(value: Any) -> str:
    """The value as one line of YAML that `read_yaml` can read."""
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).partition("\n...")[0]


def read_yaml_file(path: Path) -> Any:
    """The value of a YAML file.

    Raises:
        ConfigError: It cannot be read, or is not YAML; the error names the file.
        FileNotFoundError: It does not exist.
    """
    try:
        return read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except ConfigError as error:
        raise ConfigError(f"Cannot read {path}: {error.message}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}") from error


def _convert_path(kind: type, value: Any) -> Path:
    if kind is Path and isinstance(value, str) and value and "\0" not in value:
        with suppress(RuntimeError):  # no such user
            return Path(value).expanduser()
    raise msgspec.ValidationError(f"Expected a path, got `{value!r}`")


def _convert_section(
    sections: Mapping[str, dict[str, Any]], name: str, into: type[T], home: Path
) -> T:
    section = dict(sections[name])
    for field in msgspec.structs.fields(into):
        given, choices = section.get(field.name), get_args(field.type)
        if given == "" and type(None) in choices:
            section[field.name] = None
        elif isinstance(given, bool) and "on" in choices:  # YAML reads on and off as booleans
            section[field.name] = "on" if given else "off"
    try:
        converted = msgspec.convert(section, into, dec_hook=_convert_path)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        problem, remedy = _PATH.sub("at `", str(error)), None
        kinds = {field.name: field.type for field in msgspec.structs.fields(into)}
        if form := _INVALID_FORM.search(problem):  # the pattern would say less than its example
            parts = get_args(kinds[form[1]])
            metas = [meta for part in parts for meta in getattr(part, "__metadata__", ())]
            problem = f"{form[1]} is not like `{metas[0].examples[0]}`"
        if unknown := [str(key) for key in sections[name] if key not in kinds]:
            from difflib import get_close_matches

            near = get_close_matches(unknown[0], kinds, n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            remedy = f"{meant}Known keys: {', '.join(kinds)}."
        elif choice := _INVALID_CHOICE.search(problem):
            remedy = f"One of: {', '.join(get_args(kinds[choice[1]]))}."
        raise ConfigError(
            f"config/{name}.yaml or {ENVIRONMENT_PREFIX}{name.upper()}__*: {problem}.",
            remedy=remedy,
        ) from error
    values = {name: getattr(converted, name) for name in into.__struct_fields__}
    paths = {name: home / value for name, value in values.items() if isinstance(value, Path)}
    return msgspec.structs.replace(converted, **paths)
