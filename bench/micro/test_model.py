"""A body to a registration and a listing to bytes, beside msgspec alone and the slow reference. One call a round."""

import json

import msgspec
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import payloads
from bench.reference import slow_listing
from gdsvc import model

BODIES = {"120 bytes": payloads.SMALL, "300 bytes": payloads.large(1)}
TYPED = msgspec.json.Decoder(model.PoolRegistration)

with_each_body = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)


@with_each_body
@pytest.mark.benchmark(group="decode")
def test_decode(benchmark: BenchmarkFixture, body: bytes) -> None:
    assert benchmark(model.decode_registration, body).key.namespace


@with_each_body
@pytest.mark.benchmark(group="decode")
def test_decode_by_msgspec(benchmark: BenchmarkFixture, body: bytes) -> None:
    assert benchmark(TYPED.decode, body).key.namespace


@with_each_body
@pytest.mark.benchmark(group="body to listing")
def test_listing(benchmark: BenchmarkFixture, body: bytes) -> None:
    def listing() -> bytes:
        return model.encode_listing(model.listing_of(model.decode_registration(body)))

    assert benchmark(listing).startswith(b'{"key":')


@with_each_body
@pytest.mark.benchmark(group="body to listing")
def test_listing_in_the_reference(benchmark: BenchmarkFixture, body: bytes) -> None:
    def listing() -> str:
        return json.dumps(slow_listing(body)[1], separators=(",", ":"))

    assert benchmark(listing).startswith('{"key":')
