"""Laws of the rendering process: it is limited, killed when it must be, and there again for the
next job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from models.errors import RenderingStopped, TemplateError
from models.templates.child import TemplateChild
from models.templates.job import RenderJob
from models.templates.marks import ControlTexts
from models.templates.turns import Turn
from tests.patience import PATIENCE_S, becomes, have_ended

NO_CONTROLS = ControlTexts(())
HI = RenderJob((Turn("user", "hi"),), NO_CONTROLS)
GOOD = "{% if messages[0].content == 'bad' %}%s{% else %}{{ messages[0].content }}{% endif %}"
BAD = RenderJob((Turn("user", "bad"),), NO_CONTROLS)
Start = Callable[..., TemplateChild]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[TemplateChild] = []

    def make(template: str, seconds: float = PATIENCE_S) -> TemplateChild:
        children.append(TemplateChild(template, "<s>", "</s>", seconds))
        return children[-1]

    yield make
    for child in children:
        child.close()


def refusal(child: TemplateChild, job: RenderJob) -> str:
    with pytest.raises(TemplateError) as caught:
        child.render(job)
    return str(caught.value)


def test_one_process_serves_many_jobs(start: Start) -> None:
    child = start("{{ messages[0].content }}{{ bos_token }}")
    assert child.render(HI).text == "hi<s>"
    pid = child.pid
    assert child.render(HI).text == "hi<s>"
    assert child.pid == pid


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("{{ raise_exception('only poems') }}", "only poems"),
        ("{{ messages[0].nothing.more }}", "no attribute 'nothing'"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ cycler.__init__.__globals__ }}", "unsafe"),
        ("{% include 'x' %}", "no loader"),
        ("{{ range(10000000) }}", "Range too big"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "itself too deeply"),
        ("{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "16,000,000 characters"),
        ("{% set x = 'x' * 999999999 %}", "512 MB"),
        ("{% if %}", "Expected an expression"),
    ],
)
def test_failures_are_named_and_harm_no_later_job(start: Start, code: str, words: str) -> None:
    broken_always = code == "{% if %}"
    child = start(code if broken_always else GOOD.replace("%s", code))
    assert words in refusal(child, BAD)
    if not broken_always:
        assert child.render(HI).text == "hi"


@pytest.mark.parametrize(
    "code",
    [
        "{{ (messages|length + 8) ** (9 ** 9) }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_without_end_is_killed_and_the_next_job_runs(
    start: Start, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start(GOOD.replace("%s", code))
    assert child.render(HI).text == "hi"
    pid = child.pid
    assert pid is not None
    monkeypatch.setattr(child, "_seconds", 0.3)
    assert "did not come to an end" in refusal(child, BAD)
    assert not psutil.pid_exists(pid)
    monkeypatch.undo()
    assert child.render(HI).text == "hi"


def test_what_nobody_waits_for_is_stopped_and_nothing_is_rendered_until_it_goes_on(
    start: Start,
) -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    child = start(GOOD.replace("%s", endless), seconds=600)
    child.render(HI)
    process = psutil.Process(child.pid)
    with ThreadPoolExecutor(1) as pool:
        rendering = pool.submit(child.render, BAD)
        assert becomes(lambda: child._rendering)
        child.stop()
        with pytest.raises(RenderingStopped):
            rendering.result()
    assert have_ended([process])
    with pytest.raises(RenderingStopped):
        child.render(HI)
    child.resume()
    assert child.render(HI).text == "hi"


def test_stopping_when_idle_keeps_the_process(start: Start) -> None:
    child = start("{{ messages[0].content }}")
    child.render(HI)
    pid = child.pid
    child.stop()
    child.resume()
    assert child.render(HI).text == "hi"
    assert child.pid == pid


def test_a_killed_process_is_replaced(start: Start) -> None:
    child = start("{{ messages[0].content }}")
    child.render(HI)
    assert child.pid is not None
    process = psutil.Process(child.pid)
    process.kill()
    process.wait(PATIENCE_S)
    assert child.render(HI).text == "hi"


def test_the_date_stands_still(start: Start) -> None:
    child = start("{{ strftime_now('%d %b %Y') }}")
    for date, shown in (("2026-03-09", "09 Mar 2026"), ("", "01 Jan 1970"), ("x", "01 Jan 1970")):
        assert child.render(RenderJob(HI.turns, NO_CONTROLS, date=date)).text == shown


def test_the_environment_is_that_of_hugging_face(start: Start) -> None:
    template = (
        "{% generation %}{{ messages | tojson }}{% endgeneration %}\n"
        "  {% for a in [1, 2, 3] %}\n{% if a == 2 %}{% break %}{% endif %}\n{{ a }}{% endfor %}"
    )
    turns = (Turn("user", "<é> & 'x'"),)
    text = start(template).render(RenderJob(turns, NO_CONTROLS)).text
    assert text == '[{"role": "user", "content": "<é> & \'x\'"}]1'


def test_a_package_of_the_same_name_in_the_folder_is_not_run(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert start("{{ messages[0].content }}").render(HI).text == "hi"


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "from models.templates.child import TemplateChild\n"
        "from tests.models.test_child import HI\n"
        "import os\n"
        "child = TemplateChild('{{ 1 }}')\n"
        "child.render(HI)\n"
        "print(child.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    root = Path(__file__).parents[2]
    output = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, cwd=root, timeout=60
    ).stdout
    if psutil.pid_exists(int(output)):
        assert have_ended([psutil.Process(int(output))])


def test_the_process_loads_no_native_engine(start: Start) -> None:
    child = start("{{ 1 }}")
    child.render(HI)
    loaded = {Path(entry.path).name for entry in psutil.Process(child.pid).memory_maps()}
    assert not [name for name in loaded if "llama" in name or "numpy" in name or "_ssl" in name]
    assert not psutil.Process(child.pid).net_connections()
