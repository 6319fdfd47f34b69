"""The command in a client's settings: `python -P -m local.hooks CLIENT EVENT`, JSON on stdin."""

import sys

from local.hooks.acting import main

main(sys.argv[1:])
