"""Makes the tests' shared modules (stand-ins, harm) importable; imported first by benchmarks."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))
