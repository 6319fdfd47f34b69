"""The endpoint of `embeddings.py`: the tests' stand-in in a separate process."""

import sys
import threading

import tests_path  # noqa: F401 - makes the stand-ins importable
from stand_ins.openai_server import OpenAIStandIn

with OpenAIStandIn(int(sys.argv[1])) as server:
    print(server.url, flush=True)
    threading.Event().wait()
