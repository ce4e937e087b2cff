"""What the simulated model says, and how it counts tokens.

The text is drawn from a small vocabulary by a key, not by an engine: two engines of a pair answer a greedy
prompt with the same words, as two real ones should.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from zlib import crc32

from router.sim.request import Finish

EOS_TOKEN = 2
_VOCABULARY_SIZE = 49152
_FIRST_ID = 256
_PIECE = re.compile(r" ?\w+|[^\w\s]|\s")

_TEXT = """the of and to in is it that for on with as are this by be at from or an was can all more when
there use each which do how their if will up other about out many then them these so some would make like
into time has look two write go see number way could people than first water been call who its now find long
down day did get come made may part over new sound take only little work know place year live back give most
very after thing our just name good sentence great think say help low line before turn cause same mean
differ move right boy old too does tell set three want air well also play small end put home read hand port
large spell add even land here must big high such follow act why ask men change went light kind off need
house picture try us again animal point mother world near build self earth father head stand own page should
country found answer school grow study still learn plant cover food sun four thought let keep eye never last
door between city tree cross since hard start might story saw far sea draw left late run don't while press
close night real life few stop open seem together next white children begin got walk example ease paper
often always music those both mark book letter until mile river car feet care second group carry took rain
eat room friend began idea fish mountain north once base hear horse cut sure watch color face wood main
enough plain girl usual young ready above ever red list though feel talk bird soon body dog family direct
pose leave song measure state product black short numeral class wind question happen complete ship area half
rock order fire south problem piece told knew pass farm top whole king size heard best hour better true
during hundred am remember step early hold west ground interest reach fast five sing listen six table travel
less morning ten simple several vowel toward war lay against pattern slow center love person money serve
appear road map science rule govern pull cold notice voice fall power town fine certain fly unit lead cry
dark machine note wait plan figure star box noun field rest correct able pound done beauty drive stood
contain front teach week final gave green oh quick develop sleep warm free minute strong special mind behind
clear tail produce fact street inch lot nothing course stay wheel full force blue object decide surface deep
moon island foot yet busy test record boat common gold possible plane age dry wonder laugh thousand ago ran
check game shape yes hot miss brought heat snow bed bring sit perhaps fill east weight language among"""
_WORDS = _TEXT.split()

_OPENERS = [word.capitalize() for word in _WORDS[:32]]
# A few multi-byte pieces: whoever cuts bytes in the wrong place should notice.
_PIECES = [
    *_OPENERS,
    *(f" {word}" for word in _WORDS),
    ",",
    ".",
    ".\n",
    " café",
    " naïve",
    " — ",
    " 東京",
    " 🙂",
]
# JSON-escaped UTF-8 without the quotes, as SGLang writes it.
_ESCAPED = [json.dumps(piece, ensure_ascii=False)[1:-1].encode() for piece in _PIECES]


@dataclass(frozen=True, slots=True)
class Script:
    """An answer written in advance: per token its id and its JSON-escaped bytes.

    `finish` and `matched_stop` say how it ends (`matched_stop`: the EOS id, the stop string, or None).
    `close` is a place where the second candidate is that many nats behind: (index, nats).
    """

    ids: list[int]
    pieces: list[bytes]
    finish: Finish
    matched_stop: int | str | None
    close: tuple[int, float] | None = None

    def gap(self, index: int) -> float:
        """Nats between two neighbouring candidates at a place."""
        return self.close[1] if self.close is not None and self.close[0] == index else 1.0


def tokenize(text: str) -> list[str]:
    """Pieces of a text, about one a word."""
    return _PIECE.findall(text)


def token_id(piece: str) -> int:
    """A stable id for a piece; the vocabulary's own pieces have the ids that the model emits."""
    return _IDS.get(piece) or _FIRST_ID + len(_PIECES) + crc32(piece.encode()) % (
        _VOCABULARY_SIZE - _FIRST_ID - len(_PIECES)
    )


def detokenize(ids: Iterable[int]) -> str:
    """Text of ids that the model emits; ids of other pieces come out as replacement characters."""
    last = _FIRST_ID + len(_PIECES)
    known = (i for i in ids if i != EOS_TOKEN)
    return "".join(_PIECES[i - _FIRST_ID] if _FIRST_ID <= i < last else "\ufffd" for i in known)


def neighbours(token: int, count: int) -> list[int]:
    """So many ids of the vocabulary's own pieces, `token` first."""
    own = len(_PIECES)
    return [token, *(_FIRST_ID + (token + step) % own for step in range(1, count))][:count]


_IDS = {piece: _FIRST_ID + index for index, piece in enumerate(_PIECES)}


def text_key(*parts: object) -> int:
    """A key that depends on nothing but the parts."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def write_script(
    key: int, max_tokens: int, *, natural: tuple[float, float] | None, stop: Sequence[str] = ()
) -> Script:
    """The answer under `key`.

    `natural`: median and log-normal sigma of the answer's length in tokens, EOS included; None: no own end.
    `stop`: strings before the first of which the text ends.
    """
    rng = Random(key)
    length = max_tokens
    finish, matched = Finish.LENGTH, None
    if natural is not None:
        own = max(2, round(rng.lognormvariate(0, natural[1]) * natural[0]))
        if own <= max_tokens:
            length, finish, matched = own, Finish.STOP, EOS_TOKEN
    choices = rng.choices(range(len(_OPENERS), len(_PIECES)), k=length)
    if choices:
        choices[0] %= len(_OPENERS)
    ids = [_FIRST_ID + choice for choice in choices]
    pieces = [_ESCAPED[choice] for choice in choices]
    if finish is Finish.STOP:
        ids[-1], pieces[-1] = EOS_TOKEN, b""
    script = Script(ids, pieces, finish, matched)
    return _cut(script, choices, stop) if stop else script


def part(script: Script, at: int, gap: float, *, other: bool) -> Script:
    """The script with two close candidates at that place; with `other` it takes the second one.

    A script that ends there or before is returned as it is.
    """
    if at >= len(script.ids) - 1:
        return script
    ids, pieces = script.ids, script.pieces
    if other:
        second = neighbours(ids[at], 2)[1]
        ids = [*ids[:at], second, *ids[at + 1 :]]
        pieces = [*pieces[:at], _ESCAPED[second - _FIRST_ID], *pieces[at + 1 :]]
    return Script(ids, pieces, script.finish, script.matched_stop, (at, gap))


def _cut(script: Script, choices: list[int], stop: Sequence[str]) -> Script:
    words = [_PIECES[choice] for choice, piece in zip(choices, script.pieces, strict=True) if piece]
    text = "".join(words)
    hits = [(at, string) for string in stop if string and (at := text.find(string)) >= 0]
    if not hits:
        return script
    cut, string = min(hits)
    kept: list[bytes] = []
    position = 0
    for word in words:
        kept.append(json.dumps(word[: max(0, cut - position)], ensure_ascii=False)[1:-1].encode())
        position += len(word)
        if position >= cut + len(string):
            break
    return Script(script.ids[: len(kept)], kept, Finish.STOP, string)
