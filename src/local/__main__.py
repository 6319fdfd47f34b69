"""`python -m local`: the command `local2`, by the interpreter that has the package."""

from local.cli import main

main()
