"""YAML: reading what others wrote, with errors that say where, and not what stands there.

PyYAML is imported by what uses it: a hook, which mostly finds no file, has no time for it.
"""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Any

from local.errors import ConfigError


def read_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        ConfigError: It is not YAML, or a number or a date in it is none.
    """
    import yaml

    try:
        return yaml.safe_load(text)
    except Exception as error:  # noqa: BLE001 - PyYAML lets through what int() and others raise
        raise ConfigError(f"It is not YAML{_place(error)}.") from None


def to_yaml(value: Any) -> str:
    """The YAML text, in a line, that `read_yaml` makes the value of."""
    import yaml

    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).partition("\n...")[0]


def read_yaml_file(path: Path) -> Any:
    """The value of a YAML file.

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


def _place(error: Exception) -> str:
    """Where or why. What YAML says itself quotes what stands there: perhaps a password."""
    import yaml

    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f" (line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1})"
    return "" if isinstance(error, yaml.YAMLError) else f": {str(error).partition(':')[0]}"
