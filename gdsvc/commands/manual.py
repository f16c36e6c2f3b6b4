"""What --help of each command says: a sentence, what it does, and examples to copy."""

from typing import Final

from msgspec import Struct


class Manual(Struct, frozen=True):
    """`summary` stands in the list of commands; `text` and `examples` (of command line and comment) in its own help."""

    summary: str
    text: str
    examples: tuple[tuple[str, str], ...]


MANUALS: Final = {
    "pools": Manual(
        "list the pools that are alive",
        "Lists the pools that are alive: their keys, models, regions, frontends, how many requests they take at a time "
        "and the number of their PoolRelays. Filters of different names must all match, of the same name one of them.",
        (
            ("gdsvc pools", "all of them"),
            ("gdsvc pools --model Qwen/Qwen3-0.6B --region us-east-2", "those that serve a model in a region"),
            ("gdsvc pools --site-id ohio --site-id oregon", "those of two sites"),
            ("gdsvc pools --output json | jq -r '.pools[].frontends[]'", "every frontend, for a program"),
        ),
    ),
    "routers": Manual(
        "list the router replicas",
        "Lists the router replicas that PoolRelays report to.",
        (
            ("gdsvc routers", ""),
            ("gdsvc routers --output json | jq -r '.routers[].url'", "their URLs, for a program"),
        ),
    ),
    "watch": Manual(
        "print every change as it happens",
        "Prints one line for every event until interrupted: resync (the whole list anew), upserted (a pool is new or "
        "changed) and removed. A lost connection is taken up again where it broke off.",
        (
            ("gdsvc watch", "changes of pools"),
            ("gdsvc watch --model Qwen/Qwen3-0.6B", "of the pools that serve a model"),
            ("gdsvc watch routers", "changes of router replicas"),
            ("gdsvc watch --output json | jq -c '[.event, .data.key]'", "for a program"),
        ),
    ),
    "register": Manual(
        "register a pool and keep it alive",
        "Registers the pool that a JSON file describes and keeps its lease alive until interrupted (Ctrl-C or "
        "SIGTERM). The pool then stays listed until its lease ends, or with --deregister is taken out at once. The "
        "file holds what POST /pools takes; only its key is required:\n"
        '  {"key": {"site_id": "ohio", "namespace": "dynamo", "dgd_name": "mocker-1"},\n'
        '   "model": "Qwen/Qwen3-0.6B", "location": {"region": "us-east-2"},\n'
        '   "frontends": ["http://10.0.0.7:8000"], "capacity": {"max_concurrency": 64}}',
        (
            ("gdsvc register -f pool.json", "until Ctrl-C"),
            ("gdsvc register -f pool.json --deregister", "and take it out then"),
            ("generate-pool | gdsvc register -f -", "from standard input"),
        ),
    ),
    "deregister": Manual(
        "take a pool out at once",
        "Takes a pool out of the list at once. As long as a PoolRelay of it is alive, its next heartbeat lists the "
        "pool again: stop the relays first.",
        (
            ("gdsvc deregister ohio/dynamo/mocker-1", ""),
            ("gdsvc deregister ohio/dynamo/team%2Fmocker", "a slash inside a name is %2F"),
        ),
    ),
    "why": Manual(
        "explain why a pool is listed or not",
        "Explains why a pool is listed or not: its lease, who registered it, what the list rests on, and what "
        "happened to it lately.",
        (
            ("gdsvc why ohio/dynamo/mocker-1", ""),
            ("gdsvc why ohio/dynamo/team%2Fmocker", "a slash inside a name is %2F"),
            ("gdsvc why ohio/dynamo/mocker-1 --output json | jq .history", "for a program"),
        ),
    ),
}

EXIT_CODES_TEXT: Final = (
    "exit codes: 0 done; 1 refused by the service, or not found; 2 wrong usage; 3 the service cannot be reached or "
    "cannot answer, or what answers is no discovery service"
)


def overview() -> str:
    """The lines of `gdsvc --help` for these commands."""
    return "".join(f"  {name:<12}{manual.summary}\n" for name, manual in MANUALS.items())
