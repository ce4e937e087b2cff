"""A process that starts, takes GPU memory, logs and dies as SGLang does; run with SGLang's arguments.

Order and sums are SGLang's (`tests.support.fake_engine_memory` says them as a pure function): context; `pre`
and the check for balance; weights; draft; the pool; the rest; and only then the port. Settings come from the
file that FAKE_ENGINE names, by path. Every start is noted in `starts.jsonl` beside it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.fake_engine_settings import VARIABLE, Arguments, Knobs, parse, settings
from tests.support.fake_gpus import FakeGpus


def log(text: str) -> None:
    """As SGLang: time, rank, text."""
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')} TP0] {text}", flush=True)


class Engine:
    """One run."""

    def __init__(self, args: Arguments, knobs: Knobs, gpus: FakeGpus | None) -> None:
        self.args = args
        self.knobs = knobs
        self.gpus = gpus
        self.own = list(range(args.base_gpu, args.base_gpu + args.tp))
        self.holder = os.getpid()
        self.tokens = 0
        self.listening_since = 0.0
        self.burnt = False
        self.largest_batch = 0

    def free(self) -> list[int]:
        """On its GPUs."""
        assert self.gpus is not None
        free = self.gpus.free()
        return [free[gpu] for gpu in self.own]

    def take(self, size: int, what: str) -> None:
        """Take memory on every GPU, or die as torch does."""
        if self.gpus is None or not size:
            return
        if not self.gpus.take(self.own, size, self.holder):
            log(f"Scheduler hit an exception: Traceback (most recent call last):\n  in {what}")
            print(
                f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size >> 20}.00 MiB. "
                f"GPU 0 has {min(self.free()) >> 20}.00 MiB free.",
                flush=True,
            )
            die("Received sigquit from a child process. It usually means the child failed.")

    def load(self) -> None:
        """Everything until the port is bound."""
        knobs, args = self.knobs, self.args
        log("Init torch distributed begin.")
        self.take(knobs.context, "init")
        pre = self.balanced() if self.gpus else 0
        log(f"Load weight begin. avail mem={pre / 1e9:.2f} GB")
        self.shards()
        self.take(knobs.weights, "load_model")
        self.take(knobs.draft if args.speculates else 0, "draft load_model")
        if self.gpus:
            self.size_pool(pre)
        log(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {self.tokens}, K size: 1.00 GB")
        log("Capture cuda graph begin. This can take up to several minutes. avail mem=1.00 GB")
        print("Capturing batches (bs=1 avail_mem=1.00 GB): 100%|██| 4/4 [00:00<00:00]", flush=True)
        self.take(knobs.early, "init_cuda_graphs")
        log("Capture cuda graph end. elapsed=1.00 s, mem usage=0.20 GB, avail mem=1.00 GB.")

    def balanced(self) -> int:
        """The least free memory of all ranks."""
        pre = min(self.free())
        for own in self.free():
            if len(self.own) > 1 and pre < 0.9 * own and os.environ.get(BALANCE, "1") != "0":
                print(
                    "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
                    f"processes. pre_model_load_memory={pre / 2**30}, local_gpu_memory={own / 2**30}, ...",
                    flush=True,
                )
                die("Received sigquit from a child process. It usually means the child failed.")
        return pre

    def shards(self) -> None:
        """Weights, shard by shard."""
        steps = self.knobs.load_steps
        for done in range(steps + 1):
            share = done * 100 // steps
            print(
                f"\rLoading safetensors checkpoint shards: {share:3d}% Completed | {done}/{steps} [00:01]",
                end="\n" if done == steps else "",
                flush=True,
            )
            if done < steps:
                time.sleep(self.knobs.load_step)

    def size_pool(self, pre: int) -> None:
        """What is free now less what the fraction leaves."""
        knobs, args = self.knobs, self.args
        available = min(self.free())
        rest = available - pre * (1 - args.fraction)
        if rest <= 0:
            least = 1 - available / pre
            print(
                "ValueError: Loaded weights leave no GPU memory for the KV cache under "
                f"--mem-fraction-static={args.fraction}. Raise --mem-fraction-static above {least:.3f} (min. "
                f"viable = 1 - available/pre = {least:.4f}). If using speculative decoding, ...",
                flush=True,
            )
            die("Received sigquit from a child process. It usually means the child failed.")
        tokens = int(rest) // knobs.cell
        if args.cap is not None:
            tokens = min(tokens, args.cap)
        self.tokens = tokens // 64 * 64
        draft = knobs.draft_cell if args.speculates else 0
        self.take(self.tokens * (knobs.cell + draft), "KV pools")


BALANCE = "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK"


def die(text: str, code: int = 1) -> None:
    """End at once, as after a SIGQUIT of a worker."""
    log(text)
    os._exit(code)


class Handler(BaseHTTPRequestHandler):
    """The routes that a launcher and a router use."""

    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """Health and figures."""
        route = self.path.partition("?")[0]
        if route == "/ready" and self.engine.knobs.no_ready:
            self.answer(404, {"detail": "Not Found"})
        elif route in ("/ready", "/health"):
            self.answer(200, {})
        elif route in ("/server_info", "/get_server_info"):
            self.answer(200, {"internal_states": [{"max_total_num_tokens": self.engine.tokens}]})
        elif route == "/fake":
            engine = self.engine
            self.answer(200, {"pid": os.getpid(), "batch": engine.largest_batch, "tokens": engine.tokens})
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """Tokens, and death on request."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if self.path == "/fake/die":
            print(body.get("says", ""), flush=True)
            os._exit(body["code"])
        if time.monotonic() - self.engine.listening_since < self.engine.knobs.unready_for:
            self.answer(503, {"error": "starting"})
        elif self.path == "/generate":
            prompts = body["input_ids"]
            self.engine.largest_batch = max(self.engine.largest_batch, len(prompts))
            if max(len(prompt) for prompt in prompts) >= self.engine.args.chunk and not self.engine.burnt:
                self.engine.burnt = True
                self.engine.take(self.engine.knobs.late, "forward_extend")
            self.answer(200, [{"text": "x", "meta_info": {}} for _ in prompts])
        else:
            self.answer(200, {"object": "text_completion", "engine": self.engine.args.path})

    def answer(self, status: int, body: Any) -> None:
        """JSON."""
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def start_workers() -> int:
    """Two orphans and a child, none of which minds SIGTERM. Returns the pid of the first orphan."""
    read, write = os.pipe()
    for kind in ("child", "orphan", "naked"):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if kind != "child":
                os.setsid()
                if os.fork():
                    os._exit(0)
            with Path(os.environ[VARIABLE]).with_name("workers").open("a") as file:
                file.write(f"{os.getpid()}\n")
            if kind == "naked":
                os.execve("/bin/sleep", ["sleep", "1000"], {})
            if kind == "orphan":
                os.write(write, f"{os.getpid()}\n".encode())
            while True:
                time.sleep(1000)
    return int(os.read(read, 32))


def listen(args: Arguments) -> socket.socket:
    """Bind, or die as uvicorn does, after the line that says all is well."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((args.host, args.port))
        sock.listen(128)
    except OSError:
        log("The server is fired up and ready to roll!")
        address = f"('{args.host}', {args.port})"
        log(f"[Errno 98] error while attempting to bind on address {address}: address already in use")
        os._exit(1)
    return sock


def note(args: Arguments) -> None:
    """For the test: what was started when."""
    line = {"path": args.path, "fraction": args.fraction, "cap": args.cap, "pid": os.getpid()}
    with Path(os.environ[VARIABLE]).with_name("starts.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def heartbeat(every: float) -> None:
    """Lines that differ in a number only."""
    beats = 0
    while every:
        beats += 1
        log(f"still waiting, {beats * every:.1f} s")
        time.sleep(every)


def main() -> None:
    """Run until SIGTERM, or as the knobs say."""
    args = parse(sys.argv[1:])
    knobs = settings(args.path)
    note(args)
    engine = Engine(args, knobs, None if knobs.bare else FakeGpus.of_environment())
    if knobs.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if knobs.exit_after is not None:
        time.sleep(knobs.exit_after)
        print(knobs.last_words, flush=True)
        os._exit(knobs.exit_code)
    threading.Thread(target=heartbeat, args=(knobs.heartbeat,), daemon=True).start()
    if knobs.never_listen:
        while True:
            time.sleep(1000)
    if knobs.workers:
        engine.holder = start_workers()
    engine.load()
    sock = listen(args)
    Handler.engine = engine
    server = ThreadingHTTPServer((args.host, args.port), Handler, bind_and_activate=False)
    server.daemon_threads = True
    server.socket.close()
    server.socket = sock
    server.server_address = sock.getsockname()
    if not knobs.deaf:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    engine.listening_since = time.monotonic()
    log("The server is fired up and ready to roll!")
    server.serve_forever()


if __name__ == "__main__":
    main()
