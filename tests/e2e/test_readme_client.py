"""The README's program of the client library: it runs as it stands, and says what it is said to say."""

import re
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.process import Serve
from tests.e2e.wire import PATIENCE

README = Path(__file__).parents[2] / "README.md"


def test_the_program_registers_its_pool_and_hears_of_it(serve: Serve, tmp_path: Path) -> None:
    service = serve()
    (program,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.M | re.S)
    here = program.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}")
    output = tmp_path / "output"
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-W", "error", "-c", here],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not re.search(r"mocker-1", output.read_text()) or "REGISTERED" not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.02)
        assert service.names() == ["mocker-1"]
    finally:
        process.terminate()
        process.wait(PATIENCE)
    assert "Traceback" not in output.read_text()
