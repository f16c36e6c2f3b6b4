"""What callers ask and what pools answer, in OpenAI's shapes and of several lengths. No chance in it."""

import json
from typing import Any, Final

CHUNKS: Final = 50  # of a stream
UPLOAD_BYTES: Final = 1_000_000
REPLIES: Final = 4  # that are answered in turn

_MODEL: Final = "Qwen/Qwen3-32B"
_WORDS: Final = (
    *("the", " pool", " that", " answers", " first", " is", " not", " always", " near", ",", " é", "\n", '"so"'),
)  # of several lengths, one outside ASCII, two that JSON escapes
_QUESTIONS: Final = (
    "Why is the sky blue?",
    "Summarise in one sentence what a lease is, and what happens when it ends.",
    'Translate into French: "We did not order that."',
    "Write a haiku about queues.\nNo rhyme.",
    "List the five largest lakes. " * 6,
    "Is this code right?\n```python\nfor each in range(10):\n    print(each)\n```",
    "Where do rivers end? " * 40,
    "Grüße aus Köln: was kostet ein Brötchen?",
)


def questions(*, stream: bool) -> list[bytes]:
    """Chat requests from 150 bytes to a kilobyte, as clients send them: members and their order differ."""
    return [_encoded(_question(number, text, stream=stream)) for number, text in enumerate(_QUESTIONS)]


def uploads() -> list[bytes]:
    """Requests of exactly UPLOAD_BYTES: pictures as data URLs in a message, the model named before or behind them."""
    return [_upload(first="model" if number % 2 else "messages") for number in range(2)]


def replies() -> list[bytes]:
    """Bodies of REPLIES whole chat completions, of 300 bytes to a kilobyte."""
    return [_encoded(_completion(text(12 << number), number)) for number in range(REPLIES)]


def events() -> list[bytes]:
    """The CHUNKS server-sent events of one streamed completion: a role, tokens, the reason of its end, [DONE]."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": _WORDS[number % len(_WORDS)]} for number in range(CHUNKS - 3)]
    chunks = [_chunk(delta, None) for delta in deltas] + [_chunk({}, "stop")]
    return [*(b"data: %b\n\n" % _encoded(chunk) for chunk in chunks), b"data: [DONE]\n\n"]


def text(words: int) -> str:
    """So many tokens."""
    return "".join(_WORDS[number % len(_WORDS)] for number in range(words))


def _question(number: int, content: str, *, stream: bool) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    if number % 3 == 0:
        messages.insert(0, {"role": "system", "content": "You answer briefly."})
    members: dict[str, Any] = {"model": _MODEL, "messages": messages}
    if number % 2:
        members = {"messages": messages, "max_tokens": 256 + number, "temperature": 0.7, "model": _MODEL}
    if stream:
        members["stream"] = True
        members["stream_options"] = {"include_usage": number % 4 == 0}
    return members


def _upload(first: str) -> bytes:
    def body(picture: str) -> bytes:
        url = {"url": f"data:image/png;base64,{picture}"}
        content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": url}]
        members = {"model": _MODEL, "messages": [{"role": "user", "content": content}]}
        return _encoded({name: members[name] for name in sorted(members, key=lambda name: name != first)})

    return body(_picture(UPLOAD_BYTES - len(body(""))))


def _picture(size: int) -> str:
    return ("iVBORw0KGgoAAAANSUhEUg" * (size // 22 + 1))[:size]


def _completion(content: str, number: int) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    usage = {
        "prompt_tokens": 17 + number,
        "completion_tokens": 12 << number,
        "total_tokens": 17 + number + (12 << number),
    }
    return {"id": f"chatcmpl-{number:024x}", "object": "chat.completion", "created": 1_790_000_000} | {
        "model": _MODEL,
        "choices": [choice],
        "usage": usage,
    }


def _chunk(delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": f"chatcmpl-{7:024x}", "object": "chat.completion.chunk", "created": 1_790_000_000} | {
        "model": _MODEL,
        "choices": [choice],
    }


def _encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
