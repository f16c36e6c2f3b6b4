"""What README.md says of metrics, errors, flags, paths and events, against the code that they come from."""

import asyncio
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from gdsvc import metrics
from gdsvc._meter import RequestMeter
from gdsvc.commands.arguments import help_text
from gdsvc.commands.manual import MANUALS
from gdsvc.frontend import problems
from gdsvc.frontend.catalog import static
from gdsvc.frontend.counts import Counts
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.forwarding import Forwarder, Limits
from gdsvc.frontend.headers import Trusted
from gdsvc.frontend.listing import Listing
from gdsvc.frontend.pages import FrontendCollector, Pages
from gdsvc.frontend.policies import plugins
from gdsvc.frontend.selection import Selector
from gdsvc.frontend.selection_core import SelectionCore
from gdsvc.frontend.upstream import Client
from gdsvc.http.problems import STATUSES
from gdsvc.http.routes import PATHS
from gdsvc.metrics import Family, ScrapeCollector
from gdsvc.settings import parse_frontend
from gdsvc.settings.flags import ALL_MODES, SERVE_FLAGS, WITH_REGISTRATIONS
from gdsvc.settings.frontend_flags import frontend_flags

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
OF_OTHER_PROGRAMS = {"--config-settings"}


def _rows(heading: str, head: str = "") -> list[list[str]]:
    """The cells of the first table under a heading whose head begins so, without that head."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = next(table for table in re.findall(r"(?:^\|.*\n)+", section, re.M) if table.startswith(f"| {head}"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def _families(collected: Iterable[Metric]) -> dict[str, tuple[str, set[str]]]:
    """Kind and labels of each by the name under which it is scraped."""
    return {
        metric.name + ("_total" if metric.type == "counter" else ""): (
            metric.type,
            set(metric.samples[0].labels) - {"le"},
        )
        for metric in collected
    }


def _exposed() -> dict[str, tuple[str, set[str]]]:
    """What the service shows to a scrape."""
    families = [value for value in vars(metrics).values() if isinstance(value, Family)]
    meter = RequestMeter(["/pools"])
    meter.record(0, "GET", 200, 0.001)
    readings = [(family, 0.0, "x") if family.label else (family, 0.0) for family in families]
    return _families(ScrapeCollector([lambda: readings], meter).collect())


async def _frontend() -> tuple[dict[str, tuple[str, set[str]]], set[str]]:
    """What a Global Frontend shows to a scrape, and its paths."""
    counts = Counts()
    counts.requests["other", "a", 200] = 1
    counts.outcomes["a", "reused"] = 1
    counts.retries["reset"] += 1
    counts.first_byte["other"].observe(0.1)
    selector = Selector(SelectionCore(), Ejection())
    selector.publish(static([("a", ("http://a",))]), 0.0)
    async with Client() as client:
        forwarder = Forwarder(selector, client, counts, Limits(1, 1, 1), Trusted(()))
        pages = Pages(forwarder, Listing(selector, client), tuple, CollectorRegistry(), lambda: 0.0)
        return _families(FrontendCollector(forwarder).collect()), {path.decode() for path in pages.table()}


def _metrics_table(heading: str) -> dict[str, tuple[str, set[str]]]:
    return {row[0].strip("`"): (row[1], set(re.findall(r"`(\w+)`", row[2]))) for row in _rows(heading, "name | kind")}


def test_the_metrics_table_has_every_family_with_its_kind_and_labels() -> None:
    assert _metrics_table("Metrics") == _exposed()


def test_the_frontends_metrics_table_has_every_family_with_its_kind_and_labels() -> None:
    assert _metrics_table("Global Frontend") == asyncio.run(_frontend())[0]


def test_every_metric_named_anywhere_exists() -> None:
    assert set(re.findall(r"`(gdsvc_\w+)`", README)) <= {*_exposed(), *asyncio.run(_frontend())[0]}


def test_the_errors_table_has_every_status() -> None:
    assert [int(row[0]) for row in _rows("Errors")] == sorted({status for _, status in STATUSES})


def test_the_frontends_errors_table_has_every_status_with_its_codes() -> None:
    told = {
        (int(row[0]), code) for row in _rows("Global Frontend", "status") for code in re.findall(r"`(\w+)`", row[1])
    }
    assert told == {(status, code) for _, status, code in problems.TABLE} | {(500, "internal_error")}


def test_every_flag_named_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) - OF_OTHER_PROGRAMS
    of_commands = {flag for name in MANUALS for flag in re.findall(r"--[a-z][a-z-]+", help_text(name))}
    of_frontend = {flag.name for flag in frontend_flags(plugins.names(plugins.installed()))}
    assert named <= {flag.name for flag in SERVE_FLAGS} | of_frontend | of_commands | {"--help", "--check"}


def test_every_command_of_the_frontends_page_is_one() -> None:
    commands = re.findall(r"^gdsvc frontend (.*)$", README, re.M)
    assert len(commands) == 2
    for command in commands:
        parse_frontend(shlex.split(command), {}, plugins.names(plugins.installed()))


def test_every_path_named_exists() -> None:
    named = set(re.findall(r"`(?:GET |POST |DELETE |HEAD )?(/[a-z][^`\s?]*)`", README))
    assert named - {"/v1/…"} == {*PATHS, *asyncio.run(_frontend())[1]}


def test_every_event_named_is_logged() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "gdsvc").rglob("*.py"))
    for room, event in re.findall(r"`(service|http|pool|frontend|catalog)\.(?!py)([a-z_]+)`", README):
        assert f'"{room}.{event}"' in sources or f'"{event}"' in sources, event


def test_what_is_our_own_choice_is_said_to_be() -> None:
    section = README.split("\n## Not verified against upstream\n")[1].split("\n## ")[0]
    ours = {"--tls-client-ca-path", "--max-pools", "--max-watchers", "--max-body-bytes", "--shutdown-grace-secs"}
    assert ours <= {flag.name for flag in ALL_MODES + WITH_REGISTRATIONS}
    assert all(f"`{name}`" in section for name in ours)
