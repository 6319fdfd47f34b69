"""The ledger: every memory, durable; its operations in the memory's words.

What memory needs of it is imported from here and from the modules beside. How it is stored, a
folder below knows: nobody else sees a connection, a row or SQL.
"""

from local.ledger.sqlite.index import IndexQueue
from local.ledger.sqlite.ledger import Ledger

__all__ = ["IndexQueue", "Ledger"]
