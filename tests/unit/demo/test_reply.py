from __future__ import annotations

import pytest

from router.demo.reply import judge

CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":null}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"The request queue is full.","code":503}}\n\n'


def test_a_whole_answer_counts_its_tokens() -> None:
    assert judge(200, CONTENT + USAGE + DONE) == (3, None)


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (503, CONTENT + USAGE + DONE, "status 503"),
        (0, b"", "status 0"),
        (200, b"", "the stream ended without [DONE]"),
        (200, CONTENT + USAGE, "the stream ended without [DONE]"),
        (200, CONTENT + USAGE + b"data: [DONE", "the stream ended without [DONE]"),
        (200, CONTENT + ERROR, "the stream ended without [DONE]"),
        (200, DONE, "the stream told no usage"),
        (200, CONTENT + DONE, "the stream told no usage"),
        (200, ERROR + DONE, "the stream told no usage"),
        (200, b"data: {\n\n" + DONE, "the stream told no usage"),
    ],
)
def test_anything_less_is_a_failure(status: int, body: bytes, problem: str) -> None:
    assert judge(status, body) == (0, problem)
