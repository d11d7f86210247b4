"""Offers: bodies that a room would put whole into a prompt's head, and what it says about those that stand there.

When an epoch is opened, bodies that are still in use are carried over from the conversation that is cut off, and others
may fill a prefix up to a provider's cache floor. The room's own section then marks which ones are there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from holon.context.padding import Filler
from holon.context.sections import Section
from holon.core.values import Value


class Offer(Value, frozen=True):
    #: The room's sections, given the names of the bodies that stand in the head.
    sections: Callable[[Collection[str]], Sequence[Section]] = lambda _: ()
    #: Bodies that may fill a short prefix. Read only when an epoch is opened.
    bodies: Callable[[], Sequence[Filler]] = lambda: ()
    #: Bodies in use that must be taken along, given the transcript entry up to which the conversation is cut off.
    carried: Callable[[int], Sequence[Filler]] = lambda _: ()


NOTHING = Offer()
