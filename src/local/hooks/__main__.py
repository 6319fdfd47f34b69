"""What a client's settings call: `python -P -m local.hooks CLIENT EVENT`, with JSON on stdin."""

import sys

from local.hooks.acting import main

main(sys.argv[1:])
