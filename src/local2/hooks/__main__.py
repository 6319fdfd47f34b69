"""Entry point of `python -P -m local2.hooks CLIENT EVENT`, the command in a client's settings."""

import sys
from importlib import import_module

# msgspec takes some names from typing_extensions if it is installed, or else from typing. Importing
# it takes as long as importing msgspec itself.
sys.modules["typing_extensions"] = None  # type: ignore[assignment]
import_module("msgspec")
del sys.modules["typing_extensions"]

import_module("local2.hooks.acting").main(sys.argv[1:])
