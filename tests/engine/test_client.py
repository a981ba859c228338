"""Laws of the client and the worker's protocol, on a worker process with a scripted model."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from engine.client import EngineClient
from engine.error_values import EngineStopped
from engine.errors import LocalchatError, UsageError
from engine.events import Delta, Failed, Finished, PromptProgress, Started, Usage
from engine.messages import Cancel, LoadOptions, LoadProgress
from tests.engine.client_support import (
    MODEL,
    SCRIPTED,
    ask,
    failed,
    finished,
    question,
    scripted_client,
    until,
)
from tests.engine.workers.bytes_model import PONDER
from tests.patience import PATIENCE_S, becomes, have_ended

Make = Callable[..., EngineClient]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    clients: list[EngineClient] = []

    def make_client(*options: str) -> EngineClient:
        clients.append(scripted_client(tmp_path, *options))
        return clients[-1]

    yield make_client
    for client in clients:
        client.close()


@pytest.fixture
def client(make: Make) -> EngineClient:
    client = make()
    client.load(MODEL)
    return client


@pytest.fixture
def slow(make: Make) -> EngineClient:
    """A hundred tokens take a second."""
    client = make("--delay", "0.01")
    client.load(MODEL)
    return client


# ---- answers


def test_streamed_text_and_ids_are_the_result(client: EngineClient) -> None:
    events = list(client.submit(question("hällo")))
    result = finished(events)
    deltas = [event for event in events if isinstance(event, Delta)]
    assert result.text == "echo hällo"
    assert "".join(delta.text for delta in deltas) == result.text
    assert tuple(i for delta in deltas for i in delta.ids) == result.token_ids
    assert isinstance(events[0], Started)
    assert [type(event) for event in events].count(Finished) == 1


def test_deltas_come_at_most_ten_a_second_after_the_first(slow: EngineClient) -> None:
    started = time.monotonic()
    events = list(slow.submit(question("repeat 100 x")))
    seconds = time.monotonic() - started
    deltas = [event for event in events if isinstance(event, Delta)]
    assert len(deltas) <= 2 + 10 * seconds
    assert len(deltas[0].ids) == 1


def test_requests_at_once_get_their_own_text(client: EngineClient) -> None:
    texts = [f"text number {n}" for n in range(12)]

    def answer(text: str) -> str:
        return ask(client, text, conversation=text).text

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(answer, texts)) == [f"echo {text}" for text in texts]


def test_a_long_prompt_does_not_stop_a_streaming_answer(slow: EngineClient) -> None:
    stream = slow.submit(question("repeat 150 y", conversation="a"))
    until(stream, Delta)
    long_prompt = slow.submit(question("z" * 400, conversation="b", max_tokens=1))
    kinds: list[tuple[str, str]] = []
    threads = [
        threading.Thread(target=lambda n=n, e=e: kinds.extend((n, type(x).__name__) for x in e))
        for n, e in (("stream", stream), ("long", long_prompt))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reading = [i for i, kind in enumerate(kinds) if kind == ("long", "PromptProgress")]
    streamed = [i for i, kind in enumerate(kinds) if kind == ("stream", "Delta")]
    assert len([i for i in streamed if reading[0] < i < reading[-1]]) >= 3


def test_no_answer_is_sent_for_an_empty_message(client: EngineClient) -> None:
    for messages in ((), ("",), (" \n ",)):
        assert failed(client.submit(question(*messages))).cause.code == "usage"
    assert ask(client, "a").text == "echo a"


def test_half_surrogates_become_replacement_characters(client: EngineClient) -> None:
    assert ask(client, "a\udc80b").text == "echo a?b"
    assert client.count("a\udc80b", PATIENCE_S) == 3


def test_stop_after_ends_with_exactly_so_many_tokens(client: EngineClient) -> None:
    for count in (0, 1, 5):
        result = ask(client, "repeat 9 abc", stop_after=count)
        assert len(result.token_ids) == count
        assert result.finish_reason == "cancelled"
    assert ask(client, "repeat 9 abc", stop_after=9, max_tokens=4).finish_reason == "length"
    assert ask(client, "repeat 1 abc", stop_after=50).finish_reason == "stop"


def test_the_first_answer_after_a_load_tells_how_long_it_took(client: EngineClient) -> None:
    assert ask(client, "a").timings.load_ms == 5.0
    assert ask(client, "b").timings.load_ms == 0.0


def test_drawn_seeds_differ_and_given_ones_are_kept(client: EngineClient) -> None:
    from engine.messages import SamplingOverrides

    assert ask(client, "a").seed != ask(client, "a").seed
    assert ask(client, "a", sampling=SamplingOverrides(seed=11)).seed == 11


def test_a_name_in_use_is_refused(slow: EngineClient) -> None:
    running = question("repeat 500 x")
    events = slow.submit(running)
    next(events)
    with pytest.raises(UsageError):
        slow.submit(running)
    slow.cancel(running.request_id)
    finished(events)


def test_drafts_are_counted_while_an_answer_streams(slow: EngineClient) -> None:
    running = question("repeat 2000 x")
    events = slow.submit(running)
    until(events, Delta)
    assert slow.count("four", PATIENCE_S) == 4
    slow.cancel(running.request_id)
    assert len(finished(events).token_ids) < 2000


# ---- cancelling


def test_cancel_acts_while_the_prompt_is_read(slow: EngineClient) -> None:
    running = question("z" * 3000)
    events = slow.submit(running)
    until(events, PromptProgress)
    slow.cancel(running.request_id)
    slow.cancel(running.request_id)
    *told, last = events
    assert isinstance(last, Finished)
    assert all(one.done < one.total for one in told if isinstance(one, PromptProgress))
    result = last.result
    assert (result.finish_reason, result.text) == ("cancelled", "")
    assert ask(slow, "b", conversation="other").text == "echo b"


def test_cancel_at_once_ends_the_request_wherever_it_is(client: EngineClient) -> None:
    for _ in range(30):
        running = question("repeat 3000 x")
        events = client.submit(running)
        client.cancel(running.request_id)
        assert finished(events).finish_reason == "cancelled"


def test_cancel_ends_a_request_whose_template_does_not_end(client: EngineClient) -> None:
    """Without it the template's time limit would end the request, with an error."""
    ask(client, "a")  # the template's process is there
    running = question(PONDER)
    events = client.submit(running)
    behind = client.submit(question("b"))
    time.sleep(0.2)
    client.cancel(running.request_id)
    result = finished(events)
    assert (result.finish_reason, result.text, result.token_ids) == ("cancelled", "", ())
    assert result.usage == Usage()
    assert finished(behind).text == "echo b"


def test_cancel_ends_a_request_that_waits_for_another_ones_template(client: EngineClient) -> None:
    pondering = client.submit(question(PONDER))
    waiting = question("b")
    events = client.submit(waiting)
    client.cancel(waiting.request_id)
    assert finished(events).finish_reason == "cancelled"
    assert "did not come to an end" in failed(pondering).cause.title


def test_close_does_not_wait_for_a_template(client: EngineClient, tmp_path: Path) -> None:
    ask(client, "a")
    client.submit(question(PONDER))
    time.sleep(0.2)
    client.close()
    assert "Traceback" not in (tmp_path / "engine.log").read_text()


def test_cancelling_what_has_ended_does_nothing(client: EngineClient) -> None:
    done = question("a")
    finished(client.submit(done))
    client.cancel(done.request_id)
    client.cancel("never heard of")
    assert ask(client, "b").text == "echo b"


def test_closing_the_iterator_cancels(slow: EngineClient, monkeypatch: pytest.MonkeyPatch) -> None:
    running = question("repeat 3000 x")
    events = slow.submit(running)
    until(events, Delta)
    assert isinstance(events, Generator)
    sent: list[object] = []
    monkeypatch.setattr(slow._link, "send", sent.append)
    events.close()
    monkeypatch.undo()
    assert sent == [Cancel(running.request_id)]
    assert ask(slow, "b", conversation="other").text == "echo b"


# ---- loading


def test_loading_again_with_the_same_options_keeps_the_worker(client: EngineClient) -> None:
    pid = client.pid
    assert client.load(MODEL) is client.loaded
    assert client.pid == pid
    client.load(MODEL, LoadOptions(ctx=512))
    assert client.pid != pid
    assert client.loaded is not None
    assert client.loaded.ctx == 512


def test_progress_is_told_up_to_the_whole(make: Make) -> None:
    seen: list[LoadProgress] = []
    make().load(MODEL, LoadOptions(), seen.append)
    assert seen[-1].done_bytes == seen[-1].total_bytes


def test_a_load_can_be_cancelled_and_another_follows(make: Make) -> None:
    client = make()
    with pytest.raises(EngineStopped):
        client.load("/models/slow", progress=lambda _: client.cancel_load())
    assert client.loaded is None
    client.load(MODEL)
    assert ask(client, "a").text == "echo a"


def test_a_failed_load_raises_and_leaves_no_worker(make: Make) -> None:
    client = make()
    with pytest.raises(LocalchatError, match="broken on purpose"):
        client.load("/models/broken")
    assert client.pid is None
    assert client.count("a") is None
    client.load(MODEL)
    assert ask(client, "a").text == "echo a"


def test_a_model_whose_name_is_no_text_loads(make: Make) -> None:
    client = make()
    path = os.fsdecode(b"/models/\xff.gguf")
    assert client.load(path).path == path
    assert ask(client, "a").text == "echo a"


@pytest.mark.skipif(sys.platform != "linux", reason="the file system takes Unicode names only")
def test_an_error_names_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    path = os.fsdecode(os.path.join(folder, b"\xff.gguf"))
    Path(path).write_bytes(b"GGUF, but not really")
    client = EngineClient(Path(os.fsdecode(os.path.join(folder, b"\xfe.log"))))
    with pytest.raises(LocalchatError, match=r"\\xff\.gguf") as caught:
        client.load(path)
    assert str(caught.value).encode()
    client.close()
    broken = EngineClient(Path(path), ["/nowhere/python"])
    with pytest.raises(LocalchatError) as caught:
        broken.load(path)
    assert str(caught.value).encode()
    lost = EngineClient(Path(os.fsdecode(os.path.join(folder, b"\xff", b"log"))))
    with pytest.raises(LocalchatError, match=r"\\xff") as caught:
        lost.load(path)
    assert str(caught.value).encode()


def test_closing_ends_a_load(make: Make) -> None:
    client = make()
    with ThreadPoolExecutor(1) as pool:
        loads = threading.Event()
        loading = pool.submit(client.load, "/models/slow", progress=lambda _: loads.set())
        assert loads.wait(PATIENCE_S)
        client.close()
        with pytest.raises(EngineStopped):
            loading.result(PATIENCE_S)


def test_without_a_model_a_request_is_refused(make: Make) -> None:
    with pytest.raises(UsageError):
        make().submit(question("a"))


def test_a_program_that_cannot_start_is_an_error_with_its_name(tmp_path: Path) -> None:
    client = EngineClient(tmp_path / "log", ["/nowhere/python"])
    with pytest.raises(LocalchatError, match="/nowhere/python"):
        client.load(MODEL)


def test_a_program_that_is_no_worker_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    words = "import sys; sys.exit('no such engine')"
    client = EngineClient(tmp_path / "log", [sys.executable, "-c", words])
    with pytest.raises(LocalchatError, match=r"exit status 1(.|\n)*no such engine"):
        client.load(MODEL)


# ---- death


@pytest.mark.parametrize(
    ("wish", "how"),
    [
        ("please abort", "SIGABRT"),
        ("please segfault", "SIGSEGV"),
        ("please exit", "exit status 3"),
        ("please break", "The device answers nothing. illegal address"),
    ],
)
def test_a_dead_worker_is_an_event_and_the_next_request_starts_a_new_one(
    client: EngineClient, wish: str, how: str
) -> None:
    first = client.pid
    cause = failed(client.submit(question(wish))).cause
    assert cause.code == "failed"
    assert how in cause.text
    assert "MB" in cause.text
    assert client.loaded is None
    assert ask(client, "after").text == "echo after"
    assert client.pid not in (None, first)


def test_a_crash_dump_is_in_the_log_and_in_the_error(client: EngineClient, tmp_path: Path) -> None:
    cause = failed(client.submit(question("please abort"))).cause
    assert "Fatal Python error: Aborted" in (tmp_path / "engine.log").read_text()
    assert "bytes_model.py" in cause.text


def hangs(folder: Path) -> bool:
    return "it hangs" in (folder / "engine.log").read_text()


def test_a_hanging_worker_is_ended_after_a_cancel(
    client: EngineClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.client.CANCEL_PATIENCE_S", 0.5)
    running = question("please hang")
    events = client.submit(running)
    assert becomes(lambda: hangs(tmp_path))
    client.cancel(running.request_id)
    assert "SIGKILL" in failed(events).cause.text
    assert ask(client, "after").text == "echo after"


def test_a_hanging_worker_does_not_keep_close_waiting(make: Make, tmp_path: Path) -> None:
    client = make()
    client.load(MODEL)
    pid = client.pid
    client.submit(question("please hang"))
    assert becomes(lambda: hangs(tmp_path))
    client.close(timeout=0.5)
    assert pid is not None
    assert not psutil.pid_exists(pid)


def test_killed_at_random_moments_every_request_ends_and_the_next_one_works(make: Make) -> None:
    client = make("--delay", "0.001")
    client.load(MODEL)
    chance = random.Random(5)
    for _ in range(8):
        pid = client.pid
        assert pid is not None
        timer = threading.Timer(chance.random() * 0.3, os.kill, (pid, signal.SIGKILL))
        timer.start()
        last = list(client.submit(question("repeat 200 x", conversation="chat")))[-1]
        timer.join()
        assert isinstance(last, (Finished, Failed))
        if isinstance(last, Failed):
            assert "SIGKILL" in last.cause.text
        assert becomes(lambda: client.pid is None)
        assert ask(client, "after", conversation="chat").text == "echo after"


def test_every_request_learns_of_the_death(slow: EngineClient) -> None:
    streams = [slow.submit(question("repeat 900 x", conversation=str(n))) for n in range(3)]
    assert slow.pid is not None
    os.kill(slow.pid, signal.SIGKILL)
    assert [failed(stream).cause.code for stream in streams] == ["failed"] * 3


def test_after_a_close_nothing_starts_by_itself(client: EngineClient) -> None:
    client.close()
    assert failed(client.submit(question("a"))).cause.code == "interrupted"
    assert client.pid is None


FRONT_END = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.engine.client_support import MODEL, ask, question, scripted_client
client = scripted_client(Path(sys.argv[2]))
client.load(MODEL)
ask(client, "a")
events = client.submit(question(sys.argv[3]))
time.sleep(0.3)
print(client.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("work", ["repeat 3000 x", "please hang"])
def test_nothing_outlives_a_killed_front_end(tmp_path: Path, work: str) -> None:
    root = SCRIPTED.parents[3]
    front = subprocess.Popen(
        [sys.executable, "-c", FRONT_END, str(root), str(tmp_path), work], stdout=subprocess.PIPE
    )
    assert front.stdout is not None
    worker = psutil.Process(int(front.stdout.readline()))
    family = [worker, *worker.children(recursive=True)]
    assert len(family) == 2  # the template's child process too
    front.kill()
    front.wait()
    front.stdout.close()
    assert have_ended(family)


def test_nothing_outlives_a_killed_worker(client: EngineClient) -> None:
    ask(client, "a")
    worker = psutil.Process(client.pid)
    family = [worker, *worker.children(recursive=True)]
    worker.kill()
    assert have_ended(family)


def test_the_worker_has_its_own_session(client: EngineClient) -> None:
    assert client.pid is not None
    assert os.getsid(client.pid) == client.pid


def test_an_interrupt_from_the_terminal_does_not_end_the_worker(client: EngineClient) -> None:
    assert client.pid is not None
    os.kill(client.pid, signal.SIGINT)
    assert ask(client, "a").text == "echo a"


# ---- the screen and the log


def test_native_lines_go_to_the_log_and_never_to_the_screen(
    client: EngineClient, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask(client, "please print")
    client.close()
    log = (tmp_path / "engine.log").read_text()
    assert "a native line on standard output" in log
    assert "a line on standard error" in log
    assert capfd.readouterr() == ("", "")


def test_the_log_has_times_and_no_message_texts(client: EngineClient, tmp_path: Path) -> None:
    ask(client, "my secret")
    with pytest.raises(LocalchatError):
        client.load("/models/broken")
    log = (tmp_path / "engine.log").read_text()
    assert "localchat.worker ERROR the model could not be loaded" in log
    assert "my secret" not in log
    assert oct((tmp_path / "engine.log").stat().st_mode & 0o777) == "0o600"


def test_a_long_log_is_set_aside(make: Make, tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_bytes(b"x" * 4_000_001)
    make().load(MODEL)
    assert (tmp_path / "engine.log.old").stat().st_size == 4_000_001
    assert (tmp_path / "engine.log").stat().st_size < 4_000_000


def test_neither_process_opens_a_socket(tmp_path: Path) -> None:
    script = (
        FRONT_END.replace("import sys, time\n", f"import sys, time\n{HOOK}\n")
        .replace(
            "scripted_client(Path(sys.argv[2]))", 'scripted_client(Path(sys.argv[2]), "--watch")'
        )
        .replace("time.sleep(600)", "client.count('a'); client.drop('chat'); client.close()")
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(SCRIPTED.parents[3]), str(tmp_path), "repeat 9 x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "socket event" not in done.stderr
    assert "socket event" not in (tmp_path / "engine.log").read_text()


HOOK = (
    "sys.addaudithook(lambda event, _: event.startswith('socket.')"
    " and print('socket event', event, file=sys.stderr))"
)


# ---- memory and forgetting


def test_the_state_is_told(client: EngineClient) -> None:
    ask(client, "a")
    assert becomes(lambda: client.state is not None)
    assert client.state is not None
    assert client.state.resident_bytes > 1_000_000
    assert client.state.threads == 1


def test_a_dropped_conversation_is_read_anew(client: EngineClient) -> None:
    first = ask(client, "hello there", conversation="chat")
    assert ask(client, "hello there", conversation="chat").usage.reused_tokens > 0
    assert client.drop("chat")
    again = ask(client, "hello there", conversation="chat")
    assert again.usage.computed_tokens == first.usage.prompt_tokens


def test_a_prompt_progress_reaches_the_whole(client: EngineClient) -> None:
    events = list(client.submit(question("z" * 2000)))
    progress = [event for event in events if isinstance(event, PromptProgress)]
    assert progress[-1].done == progress[-1].total > 2000
