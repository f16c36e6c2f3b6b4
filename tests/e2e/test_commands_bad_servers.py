"""The commands against what is no discovery service, or one that is not there: exit code 3, one line, no traceback.

Real servers on real sockets. Most commands run in the process of the tests.
"""

import re
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.bad_servers import Scripted, http
from tests.e2e.people import PATIENCE, Ended, Gdsvc, at_once, environment, in_this_process
from tests.e2e.process import Serve
from tests.e2e.test_tls import Files as TlsFiles
from tests.e2e.test_tls import client_context, files, tls_flags  # noqa: F401 - files is a fixture
from tests.e2e.wire import pool

PAGE = b"<!doctype html><html><title>Welcome to nginx!</title></html>"
LIST = b'{"complete":true,"pools":[]}'


@pytest.fixture
def gdsvc(capsys: pytest.CaptureFixture[str]) -> Gdsvc:
    return in_this_process(capsys)


def check(done: Ended, code: int, *words: str) -> None:
    """One line that names the command and has the words."""
    assert (done.code, done.out) == (code, ""), done
    assert re.fullmatch(r"gdsvc \w+: .+\n", done.err), done
    for word in words:
        assert word in done.err


def test_a_service_that_is_down_is_one_line_and_exit_code_3() -> None:
    with Scripted() as server:
        pass
    commands = (("pools",), ("routers",), ("watch",), ("why", "a/b/c"), ("deregister", "a/b/c"))
    for done in at_once(*([*arguments, "--url", server.url] for arguments in commands)):
        check(done, 3, server.url, "refused", "GDSVC_URL")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (http("200 OK", "text/html", PAGE), ["web page"]),
        (http("404 Not Found", "text/html", PAGE), ["web page", "404"]),
        (http("302 Found", "text/plain", b"", "Location: http://127.0.0.1:1/"), ["redirects"]),
        (http("404 Not Found", "application/json", b'{"detail":"Not Found"}'), ["404", "not as a discovery service"]),
        (http("200 OK", "application/json", b'{"status":"green"}'), ["not as a discovery service"]),
        (http("200 OK", "application/json", b"[" * 100_000), ["not as a discovery service"]),
        (http("204 No Content", "application/json", b""), ["not as a discovery service"]),
        (http("200 OK", "application/json", LIST)[:-5], ["broke off"]),
        (b"", ["closed the connection"]),
        (b"\x00\xff" * 500 + b"\r\n\r\n", ["does not speak HTTP"]),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000, ["does not speak HTTP"]),
    ],
    ids=lambda value: None if isinstance(value, bytes) else "-".join(value[:1]).replace(" ", "-"),
)
def test_what_speaks_something_else_is_one_line_and_exit_code_3(gdsvc: Gdsvc, reply: bytes, words: list[str]) -> None:
    with Scripted(reply) as server:
        check(gdsvc("pools", "--url", server.url), 3, server.url, *words)


@pytest.mark.parametrize("body", [b"", b'{"status":"green"}'])
def test_what_says_yes_to_everything_has_taken_no_pool_out(gdsvc: Gdsvc, body: bytes) -> None:
    with Scripted(http("200 OK", "application/json", body)) as server:
        check(gdsvc("deregister", "a/b/c", "--url", server.url), 3, server.url, "not as a discovery service")


def test_an_ssh_server_and_a_web_server_are_one_line_and_exit_code_3() -> None:
    with (
        Scripted(b"SSH-2.0-OpenSSH_9.2\r\n", speaks_first=True) as ssh,
        Scripted(http("200 OK", "text/html", PAGE)) as web,
    ):
        to_ssh, to_web = at_once(("pools", "--url", ssh.url), ("watch", "--url", web.url))
    check(to_ssh, 3, ssh.url, "does not speak HTTP")
    check(to_web, 3, web.url, "no discovery service")


@pytest.mark.parametrize(
    "reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_server_that_never_answers_is_given_up_in_time(gdsvc: Gdsvc, reply: bytes) -> None:
    with Scripted(reply, holds=True) as server:
        began_at = time.monotonic()
        check(gdsvc("pools", "--url", server.url, "--timeout-secs", "0.5"), 3, server.url, "no answer in time")
        assert time.monotonic() - began_at < 10


def test_https_to_a_plain_port_is_one_line_and_exit_code_3(gdsvc: Gdsvc, serve: Serve) -> None:
    service = serve()
    check(gdsvc("pools", "--url", f"https://127.0.0.1:{service.port}"), 3, "TLS failed")


def test_an_unknown_host_is_one_line_and_exit_code_3(gdsvc: Gdsvc) -> None:
    check(gdsvc("pools", "--url", "http://nowhere.invalid:8080"), 3, "nowhere.invalid")


NAMES_WITHOUT_ANSWER = """\
import socket, sys, threading
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
from gdsvc.main import main
sys.exit(main())
"""


def test_a_resolver_that_never_answers_holds_no_command_up() -> None:
    command = ("pools", "--url", "http://some.example:8080", "--timeout-secs", "0.5")
    done = subprocess.run(
        [sys.executable, "-c", NAMES_WITHOUT_ANSWER, *command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    check(Ended(done.returncode, done.stdout, done.stderr), 3, "some.example", "no answer in time")


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("401 Unauthorized", 1, ["401", "--token-file"]),
        ("403 Forbidden", 1, ["403", "--token-file"]),
        ("429 Too Many Requests", 1, ["429", "no room", "\\x1b"]),
        ("503 Service Unavailable", 3, ["503", "no room"]),
    ],
)
def test_an_answer_that_is_no_list_tells_what_the_service_says(
    gdsvc: Gdsvc, status: str, code: int, words: list[str]
) -> None:
    problem = b'{"error":{"message":"no room\\u001b[2J\\nat all"}}'
    with Scripted(http(status, "application/json", problem)) as server:
        check(gdsvc("pools", "--url", server.url), code, *words)


# --------------------------------------------------------------------------------------------- TLS and tokens


def test_tls_with_a_private_ca_and_a_client_certificate(gdsvc: Gdsvc, serve: Serve, files: TlsFiles) -> None:  # noqa: F811
    service = serve(
        *tls_flags(files.server),
        *("--tls-client-ca-path", str(files.ca.cert)),
        tls=client_context(files, shown=files.client),
    )
    assert service.post("/pools", pool("a")).status == 200
    there = ["--url", f"https://localhost:{service.port}"]
    shown = ["--client-cert-path", str(files.client.cert), "--client-key-path", str(files.client.key)]
    done = gdsvc("pools", *there, "--ca-path", str(files.ca.cert), *shown)
    assert done.code == 0
    assert "ohio/dynamo/a" in done.out
    check(gdsvc("pools", *there, *shown), 3, "certificate is not trusted")
    check(gdsvc("pools", *there, "--ca-path", str(files.ca.cert)), 3, "certificate required")
    check(gdsvc("pools", "--url", f"http://localhost:{service.port}"), 3)
    missing = gdsvc("pools", *there, "--ca-path", "missing.pem")
    assert missing.code == 2
    assert "--ca-path" in missing.err


def test_a_token_is_sent_and_never_said(gdsvc: Gdsvc, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    with Scripted(http("403 Forbidden", "application/json", b"{}")) as server:
        from_file = gdsvc("pools", "--url", server.url, "--token-file", str(secret))
        for done in (from_file, gdsvc("pools", "--url", server.url, GDSVC_TOKEN="s3cret")):
            check(done, 1, "403")
            assert "s3cret" not in done.err
        assert all(b"\r\nAuthorization: Bearer s3cret\r\n" in request for request in server.requests)
        assert len(server.requests) == 2
    secret.write_text("s3cret\r\nHost: elsewhere")
    for arguments in (["--token-file", str(secret)], ["--token-file", str(tmp_path / "missing")]):
        done = gdsvc("pools", *arguments)
        assert done.code == 2
        assert "s3cret" not in done.err
        assert "token" in done.err


def test_a_hostile_server_cannot_reach_the_terminal(gdsvc: Gdsvc) -> None:
    evil = b'{"complete":false,"sources":[{"name":"\\u001b[2J","complete":false}],"pools":[{"key":{"site_id":"\\n\\n",'
    evil += b'"namespace":"\\u202e","dgd_name":"-rf"},"model":"\\u009b2J","frontends":["\\u001b]0;x\\u0007"]}]}'
    with Scripted(http("200 OK", "application/json", evil)) as server:
        for form in ("table", "json", "yaml"):
            done = gdsvc("pools", "--url", server.url, "--output", form)
            assert done.code == 0
            assert all(character.isprintable() or character == "\n" for character in done.out + done.err)


def test_several_urls_are_tried_in_turn(gdsvc: Gdsvc) -> None:
    with Scripted() as down:
        pass
    with Scripted(http("200 OK", "application/json", LIST)) as server:
        done = gdsvc("pools", "--url", down.url, "--url", server.url, "--output", "json")
        assert (done.code, done.out.encode()) == (0, LIST + b"\n")


def test_a_context_of_a_server_is_not_needed_to_be_refused(gdsvc: Gdsvc, files: TlsFiles) -> None:  # noqa: F811
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server.cert, files.server.key)
    with Scripted(http("200 OK", "text/html", PAGE), tls=context) as server:
        check(gdsvc("pools", "--url", server.url), 3, server.url)
        secure = f"https://localhost:{server.port}"
        check(gdsvc("pools", "--url", secure, "--ca-path", str(files.ca.cert)), 3, "web page")
