"""What sets a speculative engine apart on the wire."""

from __future__ import annotations

from router.core.words import Path
from tests.contract.backends import Pair
from tests.contract.conftest import between
from tests.contract.spot import Spot, chat_body, events, generate_body, refusal, text_of
from tests.support.leftovers import Errors
from tests.support.running import running

TOKENS = 160


async def ask(pair: Pair, path: Path) -> Spot:
    engine = pair.engine(path)
    return Spot(engine, engine.port, path)


async def test_deltas_carry_several_tokens(pair: Pair) -> None:
    """Chunks are no tokens: usage counts more of them than there were events."""
    spot = await ask(pair, Path.SPECULATIVE)
    options = {"include_usage": True, "continuous_usage_stats": True}
    found = events(await spot.chat(max_tokens=TOKENS, stream=True, stream_options=options))
    counts = [event["usage"]["completion_tokens"] for event in found[1:-2]]
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert sum(steps) == TOKENS
    assert max(steps) > 1
    assert len(steps) < TOKENS


async def test_greedy_answers_of_both_engines_are_the_same(pair: Pair) -> None:
    texts = []
    for path in Path:
        found = events(await (await ask(pair, path)).chat(max_tokens=TOKENS, stream=True))
        texts.append(text_of(found))
    assert texts[0] == texts[1]
    assert len(texts[0]) > 50


async def test_the_native_route_tells_the_accept_length(pair: Pair) -> None:
    spot = await ask(pair, Path.SPECULATIVE)
    meta = (await spot.post("/generate", generate_body(TOKENS))).json()["meta_info"]
    correct, steps = meta["spec_num_correct_drafts"], meta["spec_verify_ct"]
    assert correct > 0
    assert sum(meta["spec_correct_drafts_histogram"]) == steps
    assert sum(n * count for n, count in enumerate(meta["spec_correct_drafts_histogram"])) == correct
    assert 1.0 < meta["spec_accept_length"] <= 4.0
    plain = (await (await ask(pair, Path.BASELINE)).post("/generate", generate_body(8))).json()["meta_info"]
    assert not [key for key in plain if key.startswith("spec_")]


async def test_speculation_needs_a_few_tokens_of_the_context(pair: Pair, errors: Errors) -> None:
    """So a request may fit one engine only; the router asks the other one then."""
    baseline, speculative = await ask(pair, Path.BASELINE), await ask(pair, Path.SPECULATIVE)
    prompt = (await baseline.chat(max_tokens=1)).json()["usage"]["prompt_tokens"]
    context = (await baseline.get("/server_info")).json()["context_length"]
    body = chat_body(max_tokens=context - prompt, stop=["e", "a", "o", " "])
    assert (await baseline.post("/v1/chat/completions", body)).status == 200
    said = refusal(await speculative.post("/v1/chat/completions", body), 400)
    assert f"maximum context length of {context} tokens" in said["message"]
    async with running(between(pair)) as router:
        answer = await Spot(pair.speculative, router.data, Path.SPECULATIVE).post(
            "/v1/chat/completions", body
        )
    assert answer.status in (200, 400)
