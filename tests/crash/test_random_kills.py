"""Two hundred kills at random instants, under load, on eight homes. `make crash` does a thousand and more."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.campaign import Campaign, Tally
from tests.crash.nursery import Nursery

PAIRS = 4
KILLS = 25


@pytest.mark.slow
@pytest.mark.spec("RT-044", "RT-045")
@pytest.mark.parametrize("_pair", range(PAIRS))
def test_homes_under_load_survive_kills_at_any_instant(_pair, tmp_path):
    """Two at a time: one that gives up on a message after three crashes, and one that never does.

    What is wrong is raised with the seed; `python -m tests.crash --seed N --kills 25` plays the same load again.
    """

    def campaign(crash_attempts: int) -> Tally:
        seed = random.SystemRandom().randrange(1_000_000)
        with Nursery() as nursery:
            return Campaign(tmp_path / f"home-{seed}", seed, nursery, crash_attempts=crash_attempts).run(KILLS)

    with ThreadPoolExecutor(2) as pool:
        tallies = list(pool.map(campaign, (3, 1_000)))
    for tally in tallies:
        assert tally.kills == KILLS
        assert tally.turns > KILLS
        assert tally.resumed > 0
    assert tallies[1].quarantined == 0
