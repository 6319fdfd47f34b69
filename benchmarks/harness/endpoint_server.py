"""The endpoint of the benchmark `embeddings`: the tests' stand-in in a separate process."""

import sys
import threading

from stand_ins.openai_server import OpenAIStandIn

with OpenAIStandIn(int(sys.argv[1])) as server:
    print(server.url, flush=True)
    threading.Event().wait()
