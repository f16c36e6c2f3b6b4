"""Looking up a header field."""

from gdsvc.asgi.types import Scope, header


def test_a_repeated_field_is_one_list_and_an_absent_one_none() -> None:
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"host", b"x"), (b"if-none-match", b'"a"'), (b"if-none-match", b'"b"')],
        "client": ("127.0.0.1", "1"),
        "server": ("127.0.0.1", "2"),
    }
    assert header(scope, b"host") == b"x"
    assert header(scope, b"if-none-match") == b'"a", "b"'
    assert header(scope, b"accept") is None
