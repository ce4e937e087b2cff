"""Whatever an engine uses within its reserves, a plan holds; a refused plan does not.

The engine is `tests.support.fake_engine_memory`: SGLang's order of allocations as a pure function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from router.core.words import Path, Placement
from router.launch.plan import (
    ForeignProcess,
    GpuMemory,
    Gqa,
    Kind,
    Mla,
    ModelShape,
    PerPath,
    Plan,
    Refusal,
    SecondStart,
    Wishes,
    make_plan,
    second_fraction,
)
from router.launch.plan.footprint import layers_cell
from router.launch.plan.result import EnginePlan, static_fraction
from tests.support.fake_engine_memory import EngineFailed, Flags, Kv, Started, Use, start, take
from tests.unit.launch.planned import PROFILES

GIB = 1 << 30
LARGE = 96 * GIB
MANY = settings(max_examples=200, deadline=None)
CHAIN, NGRAM, GENERIC = (
    PROFILES.speculation("eagle3-chain"),
    PROFILES.speculation("ngram"),
    PROFILES.hardware("generic"),
)


@dataclass(frozen=True)
class Case:
    """What is planned."""

    model: ModelShape
    draft: ModelShape | None
    gpus: tuple[GpuMemory, ...]
    wishes: Wishes

    def plan(self) -> Plan | Refusal:
        profile = CHAIN if self.draft else NGRAM
        return make_plan(self.model, self.draft, self.gpus, self.wishes, profile, GENERIC)


def _model(name: str, weights: int, layers: int, attention: Gqa | Mla) -> ModelShape:
    return ModelShape(name, f"/models/{name}", "X", weights, layers, 64, attention, 1 << 20)


attentions = st.builds(
    lambda heads, dim: Gqa(heads, dim, dim), st.sampled_from([1, 2, 4, 8, 64]), st.sampled_from([64, 128])
) | st.just(Mla(512, 64))


@st.composite
def cases(draw: st.DrawFn, uneven: bool = False) -> Case:
    """Cards of 80 to 180 GB, one of which another process may be using."""
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    placement = draw(st.sampled_from([Placement.SHARED, Placement.SHARED, Placement.SEPARATE]))
    total = draw(st.sampled_from([24, 80, 96, 141, 180])) * GIB
    count = tp * (2 if placement is Placement.SEPARATE else 1)
    taken = [0] * count
    if draw(st.booleans()):
        taken[draw(st.integers(0, count - 1))] = draw(st.integers(0, (12 if uneven else 5) * GIB))
    foreign = [(ForeignProcess(77, "python", used),) if used else () for used in taken]
    gpus = tuple(
        GpuMemory(index, "card", total, total - used, foreign[index]) for index, used in enumerate(taken)
    )
    weights = int(total * tp * draw(st.floats(0.01, 0.48)))
    model = _model("target", weights, draw(st.integers(1, 100)), draw(attentions))
    draft = _model("draft", weights // 60 + 1, draw(st.integers(1, 2)), draw(attentions))
    wishes = Wishes(
        tp=tp,
        placement=placement,
        context=draw(st.sampled_from([2048, 8192, 32768, 131072])),
        concurrency=PerPath(draw(st.integers(1, 64)), draw(st.integers(1, 256))),
        kv_share=draw(st.none() | st.floats(0.1, 0.9)),
        kv_dtype=draw(st.sampled_from(["auto", "fp8_e4m3"])),
        chunked_prefill=draw(st.sampled_from([1024, 2048, 4096])),
        first=draw(st.sampled_from(list(Path))),
        allow_uneven=uneven and draw(st.booleans()),
    )
    return Case(model, draw(st.sampled_from([draft, None])), gpus, wishes)


def _kv(case: Case, engine: EnginePlan) -> Kv:
    """From the models' shapes alone, so that a plan's own bytes per token are checked too."""
    element = 1 if case.wishes.kv_dtype == "fp8_e4m3" else 2
    target = layers_cell(case.model, case.wishes.tp, element)
    if case.draft is None or engine.path is Path.BASELINE:
        return Kv(target, target, 0)
    guess = target * case.draft.layers // case.model.layers
    return Kv(target + guess, target, layers_cell(case.draft, case.wishes.tp, element))


def _use(engine: EnginePlan, parts: tuple[float, float, float, float]) -> Use:
    """Some of what is reserved: context, weights, what follows the pool, and how much of that comes late."""
    context, weights, after, late = parts
    fixed, taken = engine.fixed, int(engine.fixed.headroom * after)
    return Use(
        context=int(fixed.context * context),
        weights=int(fixed.weights * weights),
        draft=int(fixed.draft * weights),
        early=taken - int(taken * late),
        late=int(taken * late),
    )


ALL = (1.0, 1.0, 1.0, 0.0)
parts = st.tuples(st.floats(0.2, 1), st.floats(0.9, 1), st.floats(0, 1), st.floats(0, 1))


def _flags(case: Case, fraction: float, tokens: int | None) -> Flags:
    return Flags(fraction, tokens, not case.wishes.allow_uneven)


def _measured(
    plan: Plan, engine: EnginePlan, free: dict[int, int], seen: bool, used: dict[int, int]
) -> SecondStart:
    found = second_fraction(
        plan, {index: free[index] for index in engine.gpus}, first_used=used if seen else None
    )
    assert isinstance(found, SecondStart), found.reason
    return found


def _run(free: dict[int, int], engine: EnginePlan, flags: Flags, kv: Kv, use: Use) -> Started:
    started = start([free[index] for index in engine.gpus], flags, kv, use)
    free.update(zip(engine.gpus, started.free, strict=True))
    return started


def _grow(free: dict[int, int], engine: EnginePlan, use: Use) -> None:
    now = take([free[index] for index in engine.gpus], use.late, "activations")
    free.update(zip(engine.gpus, now, strict=True))


@MANY
@given(case=cases(uneven=True), first=parts, second=parts, seen=st.booleans())
def test_a_plan_that_fits_holds(
    case: Case,
    first: tuple[float, float, float, float],
    second: tuple[float, float, float, float],
    seen: bool,
) -> None:
    plan = case.plan()
    assume(isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    one, two = plan.engines
    uses = _use(one, first), _use(two, second)
    free = {gpu.index: gpu.free for gpu in plan.gpus}
    started = _run(free, one, _flags(case, one.fraction, one.tokens), _kv(case, one), uses[0])
    used = {gpu.index: gpu.free - free[gpu.index] for gpu in plan.gpus}
    measured = _measured(plan, two, free, seen, used)
    flags = _flags(case, measured.fraction, measured.max_total_tokens)
    beside = _run(free, two, flags, _kv(case, two), uses[1])
    for engine, use in zip(plan.engines, uses, strict=True):
        _grow(free, engine, use)
    for engine, found in ((one, started), (two, beside)):
        assert engine.tokens is not None
        assert abs(found.tokens - engine.tokens) <= 0.05 * engine.tokens
        assert found.tokens >= case.wishes.context
    assert min(free.values()) >= case.wishes.reserves.spare


@MANY
@given(case=cases(), first=parts, second=parts)
def test_an_engine_that_is_started_again_gets_its_pool_back(
    case: Case, first: tuple[float, float, float, float], second: tuple[float, float, float, float]
) -> None:
    plan = case.plan()
    assume(isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    one, two = plan.engines
    free = {gpu.index: gpu.free for gpu in plan.gpus}
    use = _use(two, second)
    resident = Flags(
        two.fraction if case.wishes.placement is Placement.SEPARATE else _alone(two), two.tokens, False
    )
    _run(free, two, resident, _kv(case, two), use)
    found = second_fraction(plan, {index: free[index] for index in one.gpus}, path=one.path)
    assert isinstance(found, SecondStart)
    flags = Flags(found.fraction, found.max_total_tokens, False)
    again = _run(free, one, flags, _kv(case, one), _use(one, first))
    assert again.tokens == one.tokens
    _grow(free, two, use)
    _grow(free, one, _use(one, first))


def _alone(engine: EnginePlan) -> float:
    return static_fraction(
        engine.fixed.static + engine.budget, engine.free - engine.fixed.context, capped=True
    )


@MANY
@given(case=cases(uneven=True))
def test_a_refused_plan_fails_when_it_is_forced(case: Case) -> None:
    """With all that was reserved in use, it does not start, or less than the spare memory stays free."""
    refusal = case.plan()
    assume(isinstance(refusal, Refusal) and refusal.kind in (Kind.MEMORY, Kind.UNEVEN))
    assert isinstance(refusal, Refusal)
    assume(refusal.attempt is not None and "kv_share" not in refusal.reason)
    assert refusal.attempt is not None
    free = {gpu.index: gpu.free for gpu in case.gpus}
    try:
        for engine in refusal.attempt.engines:
            pre = min(free[index] for index in engine.gpus) - engine.fixed.context
            fraction = static_fraction(engine.fixed.static + engine.budget, pre, capped=True)
            kv = _kv(case, engine)
            # A draft that is smaller than SGLang's guess leaves memory that no plan counts on.
            kv = replace(kv, draft=max(kv.draft, kv.cell - kv.target))
            _run(free, engine, _flags(case, fraction, engine.tokens), kv, _use(engine, ALL))
    except EngineFailed:
        return
    assert min(free.values()) < case.wishes.reserves.spare


@MANY
@given(case=cases())
def test_a_plan_is_refused_by_a_byte_and_not_by_more(case: Case) -> None:
    """Both engines with the smallest pools that do, and the spare memory are enough; a byte less is not."""
    shared = replace(case.wishes, placement=Placement.SHARED, kv_share=None)
    asked = replace(case, wishes=shared, gpus=case.gpus[: shared.tp])

    def with_free(free: int) -> Plan | Refusal:
        return replace(asked, gpus=tuple(replace(gpu, total=LARGE, free=free) for gpu in asked.gpus)).plan()

    nothing = with_free(GIB)
    assert isinstance(nothing, Refusal)
    assert nothing.attempt is not None
    need = sum(engine.total for engine in nothing.attempt.engines) + shared.reserves.spare
    assert isinstance(with_free(need), Plan)
    short = with_free(need - 1)
    assert isinstance(short, Refusal)
    assert short.kind is Kind.MEMORY


@MANY
@given(case=cases(), first=parts, second=parts, cell=st.integers(100, 200_000), seen=st.booleans())
def test_a_plan_of_a_measured_model_holds_whatever_a_token_costs(
    case: Case,
    first: tuple[float, float, float, float],
    second: tuple[float, float, float, float],
    cell: int,
    seen: bool,
) -> None:
    """Nothing caps the pools: they have the planned bytes within 5 % if context and weights were right."""
    plan = replace(case, draft=None, model=replace(case.model, measured="it is strange")).plan()
    assume(isinstance(plan, Plan))
    assert isinstance(plan, Plan)
    one, two = plan.engines
    uses = _use(one, (1.0, 1.0, *first[2:])), _use(two, (1.0, 1.0, *second[2:]))
    free, kv = {gpu.index: gpu.free for gpu in plan.gpus}, Kv(cell, cell, 0, page=1)
    started = _run(free, one, _flags(case, one.fraction, None), kv, uses[0])
    measured = _measured(plan, two, free, seen, {gpu.index: gpu.free - free[gpu.index] for gpu in plan.gpus})
    assert measured.max_total_tokens is None
    beside = _run(free, two, _flags(case, measured.fraction, None), kv, uses[1])
    for engine, use in zip(plan.engines, uses, strict=True):
        _grow(free, engine, use)
    assert started.tokens * cell >= 0.95 * one.kv_bytes
    assert beside.tokens * cell >= 0.95 * two.kv_bytes
    assert min(free.values()) >= case.wishes.reserves.spare
