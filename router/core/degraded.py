"""Speculation that does harm while its engine looks healthy, and how it gets another chance.

Three signs, each over a window of readings while the speculative path has requests:

* the accept length is near 1: drafts are wrong (a draft head that was lost on a reload, for instance);
* the prefix cache stopped hitting while the baseline's hits: every turn of a conversation is computed anew;
* it gives far fewer tokens than the baseline gave at the same load.

Then it is **degraded**: new requests go to the baseline. After a hold speculation may be used again as
the policy wants, which is at low load; a short window decides then, and a sign that is still there doubles
the hold.

    well ──a sign for its window──▶ degraded ──hold──▶ trial ──no sign for TRUST──▶ well
                                        ▲                │
                                        └──a sign for SHORT, hold doubled
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from router.core.live import Live, PathLive
from router.core.load import finite
from router.core.words import Path, Sign

WINDOWS = {Sign.ACCEPT_LENGTH: 30.0, Sign.PREFIX_CACHE: 120.0, Sign.SLOW: 60.0}
SHORT = 10.0
TRUST = 300.0
HOLD = 60.0
LONGEST_HOLD = 1800.0
# A reading older than this says nothing of now.
FRESH = 5.0

LEAST_ACCEPT = 1.1
GOOD_HITS = 0.5
LOST_HITS = 0.4
# Speculation that is a little slower is for the policy; below this share something is wrong.
SLOW_SHARE = 0.5
MEMORY_WEIGHT = 0.2
# Seconds that a path must have been alone: rates are those of the last 5.
ALONE = 10.0


@dataclass(frozen=True, slots=True)
class Harm:
    """What is remembered.

    Attributes:
        since: by sign, since when it has been there; absent: it is not there.
        until: degraded until then; None: it is not.
        hold: how long the next hold is.
        trial_at: when the last hold ended; None: there was none, or speculation is trusted again.
        why: the sign of the last time.
        rates: tokens per second of the baseline by load, as the exponent of a power of two.
        alone: the path that has been alone, and since when.
        read_at: time of the baseline's reading that was taken last.
    """

    since: tuple[tuple[Sign, float], ...] = ()
    until: float | None = None
    hold: float = HOLD
    trial_at: float | None = None
    why: Sign | None = None
    rates: tuple[tuple[int, float], ...] = ()
    alone: tuple[Path, float] | None = None
    read_at: float | None = None

    @property
    def degraded(self) -> bool:
        """True while new requests are to go to the baseline."""
        return self.until is not None

    @property
    def reason(self) -> Sign | None:
        """Why new requests are to go to the baseline; None: they are not."""
        return self.why if self.degraded else None

    def look(self, live: Live, now: float) -> Harm:
        """After what is measured now."""
        seen = self._remember(live, now)
        if seen.until is not None:
            if now < seen.until:
                return seen
            return replace(seen, until=None, trial_at=now, since=())
        signs = seen._signs(live, now)
        if signs or seen.since:
            before = dict(seen.since)
            seen = replace(seen, since=tuple((sign, before.get(sign, now)) for sign in signs))
        for sign, began in seen.since:
            window = WINDOWS[sign] if seen.trial_at is None else min(SHORT, WINDOWS[sign])
            if now - began >= window:
                return replace(
                    seen,
                    until=now + seen.hold,
                    hold=min(LONGEST_HOLD, 2 * seen.hold),
                    why=sign,
                    since=(),
                )
        if seen.trial_at is not None and now - seen.trial_at >= TRUST and live.speculative.active:
            return replace(seen, trial_at=None, hold=HOLD)
        return seen

    def _remember(self, live: Live, now: float) -> Harm:
        """Keep how fast the baseline is when it is alone, and who is alone."""
        alone = _alone(live, now)
        if alone and self.alone and alone[0] is self.alone[0]:
            alone = self.alone
        seen = self if alone is self.alone else replace(self, alone=alone)
        if alone is None or alone[0] is not Path.BASELINE or now - alone[1] < ALONE:
            return seen
        if live.baseline.at == self.read_at or (rate := _rate(live.baseline, now)) is None:
            return seen
        rates, load = dict(self.rates), _load(live.baseline.active)
        rates[load] = rate + (rates.get(load, rate) - rate) * (1.0 - MEMORY_WEIGHT)
        return replace(seen, rates=tuple(sorted(rates.items())), read_at=live.baseline.at)

    def _signs(self, live: Live, now: float) -> tuple[Sign, ...]:
        """The signs that are there. What is not known is none."""
        speculative = live.speculative
        if not speculative.active or not _fresh(speculative, now):
            return ()
        found = []
        gain = finite(speculative.accept_length)
        if gain is not None and 1.0 <= gain < LEAST_ACCEPT:
            found.append(Sign.ACCEPT_LENGTH)
        hits = finite(speculative.cache_hits)
        others = None if hits is None else finite(live.baseline.cache_hits)
        if hits is not None and others is not None and others >= GOOD_HITS and hits < LOST_HITS * others:
            found.append(Sign.PREFIX_CACHE)
        if self._slow(speculative, now):
            found.append(Sign.SLOW)
        return tuple(found)

    def _slow(self, speculative: PathLive, now: float) -> bool:
        """Whether speculation gives far less than the baseline gave at this load."""
        if self.alone is None or self.alone[0] is not Path.SPECULATIVE or now - self.alone[1] < ALONE:
            return False
        usual = dict(self.rates).get(_load(speculative.active))
        rate = None if usual is None else _rate(speculative, now)
        return rate is not None and usual is not None and rate < SLOW_SHARE * usual


def _alone(live: Live, now: float) -> tuple[Path, float] | None:
    """The path that has all the requests, from now on."""
    speculative, baseline = live.speculative.active > 0, live.baseline.active > 0
    if speculative is baseline:
        return None
    return (Path.SPECULATIVE if speculative else Path.BASELINE), now


def _fresh(live: PathLive, now: float) -> bool:
    at = finite(live.at)
    return at is not None and 0.0 <= now - at <= FRESH


def _rate(live: PathLive, now: float) -> float | None:
    """Tokens per second; None where that is not known, or nothing runs."""
    rate = finite(live.tokens_per_second)
    return rate if rate is not None and rate > 0 and live.active and _fresh(live, now) else None


def _load(active: int) -> int:
    """The load as the exponent of the nearest power of two."""
    return round(math.log2(active))
