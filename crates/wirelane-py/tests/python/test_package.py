"""The package as a whole: its types and its example, and that it imports no optional package."""

import ast
import json
import subprocess
import sys
from pathlib import Path

from conftest import run

EXAMPLES = Path(__file__, "../../../examples").resolve()


def test_the_package_needs_nothing_else():
    code = "import sys, wirelane; print({'pyarrow', 'numpy', 'scapy'} & set(sys.modules))"
    assert run(code).stdout == "set()\n"


def test_the_stubs_say_what_there_is(tmp_path):
    # Python before 3.12 has no `__buffer__` method.
    allowed = tmp_path / "allowed"
    allowed.write_text("wirelane.Frame.__buffer__\n")
    stubtest = [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-disjoint-bases"]
    stubtest += ["--allowlist", str(allowed), "--ignore-unused-allowlist", "wirelane"]
    ended = subprocess.run(stubtest, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


TYPED = """
import wirelane
with wirelane.open("sim:2", count=10) as port:
    port.rx_queues = [0]
    for frame in port.frames():
        name: str = frame.interface
        size: int = memoryview(frame).nbytes
with wirelane.read("x.pcap", columns=["time"]) as port:
    rows: int = sum(len(batch) for batch in port)
    found: wirelane.Batch | None = port.batch(timeout=1)
sent: int = wirelane.send("file:x.pcap", [b"1"])
"""


def check_types(code: str) -> str:
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "-c", code]
    return subprocess.run(mypy, capture_output=True, text=True).stdout


def test_programs_are_checked_by_the_stubs():
    assert check_types(TYPED) == ""
    assert "incompatible type" in check_types('import wirelane\nwirelane.open("sim:1", count="1")')


def test_the_notebook_runs():
    notebook = json.loads((EXAMPLES / "first_look.ipynb").read_text())
    names: dict[str, object] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        code = ast.parse("".join(cell["source"]))
        last = code.body[-1]
        exec(compile(code, "first_look.ipynb", "exec"), names)
        if isinstance(last, ast.Expr):
            # Notebooks display the value of a final expression.
            shown = eval(compile(ast.Expression(last.value), "first_look.ipynb", "eval"), names)
            assert len(str(shown)) > 0
    assert len(names["by_queue"]) >= 4 and len(names["flows"]) > 0
