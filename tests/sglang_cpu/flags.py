"""Command lines of the engines that the tests start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.sglang_cpu.install import HERE, interpreter

MODEL = "tiny"
CONTEXT = 2048
POOL = 8192
RUNNING = 4


@dataclass(frozen=True, slots=True)
class Start:
    """How one engine is started.

    Attributes:
        speculative: with the EAGLE-3 head.
        context, pool: tokens per request, and in the KV pool.
        running, queued: requests at once, and waiting (None: any number).
        api_key: what clients must show.
        environment: variables, beside those that every start needs.
    """

    speculative: bool = False
    context: int = CONTEXT
    pool: int = POOL
    running: int = RUNNING
    queued: int | None = None
    api_key: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, home: Path, port: int) -> list[str]:
        """The whole command line."""
        models = home / "models"
        options = {
            "model-path": models / "target",
            "served-model-name": MODEL,
            "device": "cpu",
            "host": "127.0.0.1",
            "port": port,
            "dtype": "float32",
            "random-seed": 0,
            "context-length": self.context,
            "max-total-tokens": self.pool,
            "max-running-requests": self.running,
        }
        if self.queued is not None:
            options["max-queued-requests"] = self.queued
        if self.api_key is not None:
            options["api-key"] = self.api_key
        if self.speculative:
            options |= _SPECULATIVE | {"speculative-draft-model-path": models / "eagle3"}
        command = [str(interpreter(home)), "-m", "sglang.launch_server", *_SWITCHES]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        return command

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment, on top of `base`."""
        kept = {name: value for name, value in base.items() if not name.startswith(("SGLANG_", "SGL_"))}
        return kept | _ENVIRONMENT | dict(self.environment)


# An idle scheduler polls a whole core away without the first; the second is what the router reads.
_SWITCHES = ("--sleep-on-idle", "--enable-metrics")
_ENVIRONMENT = {
    "PYTHONPATH": str(HERE / "shim"),
    "PYTHONUNBUFFERED": "1",
    "SGLANG_USE_CPU_ENGINE": "1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
# SGLang's speculation knows one attention backend for CPUs. Named like this, it is not replaced on machines
# without its instructions, and the shim provides what it calls.
_SPECULATIVE: dict[str, object] = {
    "attention-backend": "torch_native",
    "prefill-attention-backend": "intel_amx",
    "decode-attention-backend": "intel_amx",
    "speculative-algorithm": "EAGLE3",
    "speculative-num-steps": 2,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 3,
}
