"""The text of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


def render(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Body and content type of a scrape.

    Args:
        registry: what to tell.
        accept: the request's `Accept` header; chooses between the text formats.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_WithoutCreated(registry)), content_type


class _WithoutCreated(Collector):
    """Leaves `_created` samples out: they double the scrape, and nothing here is read by them.

    The client library can only turn them off for the whole process.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            created = f"{metric.name}_created"
            metric.samples = [sample for sample in metric.samples if sample.name != created]
            yield metric
