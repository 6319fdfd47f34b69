"""Entry point of `python -P -m local.hooks CLIENT EVENT`, the command in a client's settings."""

import sys

from local.hooks.acting import main

main(sys.argv[1:])
