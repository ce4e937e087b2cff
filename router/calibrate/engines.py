"""The two engines of a calibration: what they are, and whether they are the right two."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from router.bench.messages import Address
from router.bench.target import TIMEOUT, Unreachable, find_address
from router.control.parse import read_identity, read_loads
from router.core.headers import bearer
from router.core.identity import Identity
from router.core.words import Path


class WrongEngines(Exception):
    """They cannot be calibrated as they are."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine.

    Attributes:
        address: where requests go.
        identity: what it says of itself.
        url, api_key: for everything else.
    """

    path: Path
    url: str
    api_key: str | None
    address: Address
    identity: Identity


async def find_engine(
    http: httpx.AsyncClient, path: Path, url: str, api_key: str | None, route: str, model: str | None
) -> Engine:
    """The engine behind a URL.

    Raises:
        BadTarget, Unreachable: see `find_address`.
        WrongEngines: it does not say what it is, or has work already.
    """
    address = await find_address(http, url, route, model, api_key)
    headers = bearer(api_key)
    identity = read_identity(await _get(http, url + "/server_info", headers))
    if identity is None:
        raise WrongEngines(
            f"{url}/server_info does not say what the {path} engine is: is it an SGLang server?"
        )
    loads = read_loads(await _get(http, url + "/v1/loads", headers))
    if loads.running or loads.waiting:
        raise WrongEngines(
            f"the {path} engine has {loads.running or 0} running and {loads.waiting or 0} waiting requests: "
            "keep other clients away while it is measured"
        )
    return Engine(path, url, api_key, address, identity)


async def _get(http: httpx.AsyncClient, url: str, headers: dict[str, str]) -> bytes:
    try:
        answer = await http.get(url, headers=headers, timeout=TIMEOUT)
    except httpx.HTTPError as error:
        raise Unreachable(f"{url}: no answer ({type(error).__name__})") from None
    return answer.content if answer.status_code == 200 else b""


def check_pair(speculative: Engine, baseline: Engine) -> None:
    """Refuse what cannot be compared. Raises WrongEngines."""
    one, other = speculative.identity, baseline.identity
    if one.speculative is False and other.speculative:
        raise WrongEngines("the URLs of the two engines are swapped: the one given as baseline speculates")
    if one.speculative is False:
        raise WrongEngines("the engine given as speculative runs no speculative algorithm")
    if other.speculative:
        raise WrongEngines("the engine given as baseline runs a speculative algorithm")
    if speculative.address.model != baseline.address.model:
        raise WrongEngines(
            f"the engines serve different models, {speculative.address.model!r} and "
            f"{baseline.address.model!r}: name one that both have with --model"
        )
