"""Durable state. Whatever changes together is one function of a transaction: `await store.write(fn)`.

SQL stands only in this room. One module a record family; each function takes the transaction first.
"""

from holon.store.database import Store
from holon.store.transaction import Tx

__all__ = ["Store", "Tx"]
