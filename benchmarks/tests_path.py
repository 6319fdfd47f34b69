"""Imported first, it lets a benchmark use what the tests share: stand-ins, and harm to be done."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))
