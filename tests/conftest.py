"""Runs the tests that are coroutines, each on a fresh loop of asyncio and on one of uvloop; sets hypothesis up."""

import asyncio
import inspect
import signal
from collections.abc import Callable, Iterator

import hypothesis
import pytest
import uvloop

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_configure() -> None:
    """No example fails for being slow: CI shares its machine. The suite as a whole has a timeout."""
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("gdsvc", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("gdsvc")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Doubles every coroutine test, save those marked with the loops that they are for."""
    if inspect.iscoroutinefunction(metafunc.function):
        marker = metafunc.definition.get_closest_marker("loops")
        metafunc.fixturenames.append("loop_name")
        metafunc.parametrize("loop_name", marker.args if marker else LOOPS)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Awaits a coroutine test; others take the ordinary way."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    with asyncio.Runner(loop_factory=LOOPS[str(pyfuncitem.callspec.params["loop_name"])]) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def hangups() -> Iterator[None]:
    """Hangups are heard, and end what is started, even where nohup has switched them off for all of the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def ministack() -> Iterator[str]:
    """The endpoint of a DynamoDB on loopback, for tests with that marker."""
    from tests.dynamodb.ministack import running

    with running() as endpoint:
        yield endpoint
