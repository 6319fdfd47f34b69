"""From a save's acknowledgement until `search_memory` finds it, at 20 saves a second.

A new memory is found by its words first, and by its meaning once it is indexed; both are told.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec

from client import Asker, data_of, request_of, stack_and_echo
from local.memory.ranking import WORDS_WEIGHT
from local.tools.save_memory import SavedMemory
from local.tools.search_memory import FoundMemories
from report import Figure, milliseconds, percentile, run
from texts import notes

SAVES = 300
SAVES_A_SECOND = 20
BLOCKS = 5
PATIENCE = 10.0
POLL = 0.02
WORDS = 10, 40


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the acknowledgement until found at all, and until found by meaning."""

    found: float
    by_meaning: float | None
