"""The bodies that are posted: of one size where size counts, of many shapes where it is a fleet. No chance in it."""

import json
from collections.abc import Iterator
from typing import Any

SMALL_BYTES = 120
LARGE_BYTES = 300

_MODELS = ("Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct", "deepseek-ai/DeepSeek-R1", "openai/gpt-oss-120b")
_REGIONS = ("us-east-2", "eu-central-1", "ap-northeast-1")
_CAPABILITIES = ("chat", "completions", "embeddings", "tools", "vision", "lora")

SMALL = (
    b'{"key":{"site_id":"ohio","namespace":"dynamo","dgd_name":"mocker-01"},'
    b'"model":"m","frontends":["http://10.0.0.10:8000"]}'
)


def large(number: int, concurrency: int = 256) -> bytes:
    """LARGE_BYTES that register pool `number` (at most 6 digits); `concurrency` (3 digits) is what may change in it."""
    return (
        b'{"key":{"site_id":"us-east-2-prod","namespace":"dynamo-batch","dgd_name":"qwen3-32b-%06d"},'
        b'"location":{"region":"us-east-2","availability_zone":"us-east-2b"},"model":"Qwen/Qwen3-32B",'
        b'"frontends":["http://pool-%06d.example:8000"],"capacity":{"max_concurrency":%03d},'
        b'"capabilities":["chat","tools"]}' % (number, number, concurrency)
    )


def changing(pools: int, variants: int) -> Iterator[bytes]:
    """Bodies of LARGE_BYTES that, sent round and round, change their pool each time: all pools, then the next variant.

    From 6 variants on no body equals one of its pool's last four others, which would be a dispute between two relays.
    """
    for variant in range(variants):
        for number in range(pools):
            yield large(number, 100 + variant)


def fleet(pools: int) -> Iterator[bytes]:
    """One body for each of `pools` pools, about LARGE_BYTES long.

    Hosts and models vary, and whether location, capacity and capabilities are there.
    """
    for number in range(pools):
        yield json.dumps(_registration(number), separators=(",", ":")).encode()


def _registration(number: int) -> dict[str, Any]:
    region = _REGIONS[number % 3]
    members: dict[str, Any] = {
        "key": {"site_id": f"{region}-{number % 17}", "namespace": "dynamo", "dgd_name": f"pool-{number}"},
        "model": _MODELS[number % 4],
        "frontends": [
            f"http://10.{number >> 16}.{number >> 8 & 255}.{number & 255}:{8000 + n}" for n in range(1 + number % 2)
        ],
    }
    if number % 5:
        members["location"] = {
            "region": region,
            "availability_zone": region + "ab"[number % 2],
            "cluster": f"c{number % 7}",
        }
    if number % 4:
        members["capacity"] = {"max_concurrency": 64 + number % 512, "live_workers": 1 + number % 16}
    if number % 3:
        members["capabilities"] = list(_CAPABILITIES[: 1 + number % 6])
    return members
