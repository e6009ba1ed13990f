"""Workers that a template forks: they end as started workers do, leave nothing, and reach no other process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.api.errors import ChildError
from bench.measure import namespaces, templates
from bench.measure.process import Child, thread_environment
from bench.measure.templates import Forked

MIB = 2**20
OPERATIONS = '''
"""Operations that say where they run, or that end their process."""

import ctypes, json, os, signal, subprocess, sys, tempfile, threading, time


def where():
    descriptors = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass
    return {
        "pid": os.getpid(), "parent": os.getppid(), "threads": len(os.listdir("/proc/self/task")),
        "seen": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()), "descriptors": descriptors,
        "folder": os.getcwd(), "temporary": tempfile.gettempdir(), "mine": os.environ.get("BENCH_MINE"),
        "umask": open("/proc/self/status").read().partition("Umask:")[2].split()[0], "modules": sorted(sys.modules),
        "session": os.getsid(0) == os.getpid(), "statm": open(f"/proc/{os.getpid()}/cmdline").read()[:1],
    }


def fail():
    raise ValueError("as asked")


def crash():
    ctypes.string_at(0)


def abort():
    os.abort()


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    os._exit(3)


def end():
    sys.exit(4)


def close():
    for number in range(3, 60):
        try:
            os.close(number)
        except OSError:
            pass
    time.sleep(60)


def hang():
    time.sleep(60)


def eat():
    kept = []
    while True:
        kept.append(bytearray(1 << 24))


def note():
    print("what it says")
    os.abort()


def leave_behind(mark):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", mark])
            os._exit(0)
    time.sleep(0.3)
    return {}


def pipe():
    reading, writing = os.pipe()
    os.close(reading)
    os.write(writing, b"x")


def draw():
    import numpy.random
    return {"drawn": int(numpy.random.randint(1 << 30))}


def size():
    import scipy.stats
    from bench.measure import memory
    return {"resident": memory.rss_bytes(), "started": memory.rss_bytes_if_started()}


def folder():
    return {"names": os.listdir(".")}


def forge(text):
    for name in os.listdir("/proc/1/fd"):
        try:
            if os.readlink(f"/proc/1/fd/{name}").startswith("pipe:"):
                os.write(os.open(f"/proc/1/fd/{name}", os.O_WRONLY | os.O_NONBLOCK), text.encode())
        except OSError:
            pass
    os._exit(3)


def uncover():
    ctypes.CDLL(None).umount2(b"/proc", 2)
    return {"seen": [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]}


def attack(pids):
    libc, reached = ctypes.CDLL(None, use_errno=True), []
    for pid in pids:
        files = [f"/proc/{pid}/status", f"/proc/{pid}/mem"]
        ways = [lambda: os.kill(pid, 0), lambda: os.pidfd_open(pid), *(lambda file=file: open(file) for file in files)]
        for way in ways:
            try:
                way()
                reached.append(pid)
            except OSError:
                pass
        if libc.ptrace(16, pid, None, None) == 0:  # PTRACE_ATTACH
            reached.append(pid)
    return {"reached": reached}
'''
LIGHT = ("decimal",)


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[types.ModuleType]:
    folder, name = tmp_path_factory.mktemp("operations"), f"operations_{uuid.uuid4().hex}"
    (folder / f"{name}.py").write_text(OPERATIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield __import__(name)


@pytest.fixture(scope="module")
def shared() -> Iterator[templates.Templates]:
    """Templates of tests that only have them fork."""
    found = templates.Templates()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _templates(shared: templates.Templates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "OF_THIS_PROCESS", shared)


@pytest.fixture
def own(_templates: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[templates.Templates]:
    """Templates of this test alone, which counts them or ends them."""
    found = templates.Templates()
    monkeypatch.setattr(templates, "OF_THIS_PROCESS", found)
    yield found
    found.close()


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that children can import."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def template_of(child: Child) -> templates.Template:
    process: Any = child._process
    if not isinstance(process, Forked):
        assert not namespaces.can_be_apart(), "it was started, though this system gives workers namespaces of their own"
        pytest.skip("this system gives workers no namespaces of their own")
    return process._template


def outcome(operation: Callable[..., Any], *, forked: bool, timeout_s: float = 20.0) -> tuple[str, str]:
    with Child(memory_bytes=512 * MIB, modules=LIGHT if forked else None) as child:
        if forked:
            template_of(child)
        with pytest.raises(ChildError) as raised:
            child.request(operation, timeout_s=timeout_s)
    return raised.value.kind, raised.value.reason


@pytest.mark.parametrize("name", ["fail", "crash", "abort", "kill", "leave", "end", "eat", "note", "pipe"])
def test_a_fork_ends_as_a_started_worker_does(name: str, operations: Any) -> None:
    operation = getattr(operations, name)
    assert outcome(operation, forked=True) == outcome(operation, forked=False)


@pytest.mark.parametrize("name", ["hang", "close"])
def test_a_fork_that_does_not_answer_is_ended(name: str, operations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.measure.process.DYING_S", 0.5)
    timeout_s = 0.5 if name == "hang" else 20.0  # a busy machine may take longer to start a worker
    found = [outcome(getattr(operations, name), forked=forked, timeout_s=timeout_s) for forked in (True, False)]
    assert found[0] == found[1]


def test_a_fork_is_alone_and_has_what_a_worker_has(
    operations: Any, own: templates.Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for _ in range(2):  # the second finds a template
        monkeypatch.setenv("BENCH_MINE", str(len(told)))
        monkeypatch.chdir(tmp_path)
        with Child(modules=LIGHT) as child:
            template_of(child)
            told.append(child.request(operations.where, timeout_s=20))
            assert told[-1]["temporary"] == str(child._scratch.path)
    for number, found in enumerate(told):
        assert (found["threads"], found["mine"], found["folder"]) == (1, str(number), str(tmp_path))
        assert (found["seen"], found["session"]) == ([1, found["pid"]], True)
        assert "decimal" in found["modules"]
        kinds = [target.partition(":")[0] for name, target in found["descriptors"].items() if int(name) > 2]
        assert sorted(kind if kind == "pipe" else "folder" for kind in kinds) == ["folder", "pipe", "pipe"]
    assert told[0]["umask"] == Path("/proc/self/status").read_text().partition("Umask:")[2].split()[0]
    assert told[0]["pid"] != told[1]["pid"], "packages name files by it"
    assert len([*own._living()]) == 1


def test_a_fork_tells_the_memory_that_a_started_worker_takes(operations: Any) -> None:
    sizes = []
    for modules in (None, ("scipy.stats",)):
        with Child(environment=thread_environment(1), modules=modules) as child:
            if modules:
                template_of(child)
            sizes.append(child.request(operations.size, timeout_s=60))
    started, forked = sizes
    assert started["started"] == started["resident"]
    assert forked["resident"] < 0.9 * started["resident"], "what this figure is about"
    assert forked["started"] == pytest.approx(started["resident"], rel=0.1)


def test_forks_draw_numbers_of_their_own(operations: Any) -> None:
    drawn = set()
    for _ in range(2):
        with Child(environment=thread_environment(1), modules=("numpy.random",)) as child:
            template_of(child)
            drawn.add(child.request(operations.draw, timeout_s=20)["drawn"])
    assert len(drawn) == 2


def test_a_fork_has_the_working_folder_even_where_it_was_removed(
    operations: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "removed"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    with Child(modules=LIGHT) as child:
        template_of(child)
        assert child.request(operations.folder, timeout_s=20) == {"names": []}


@pytest.mark.parametrize("text", ["no number\n", "9" * 5000, ""], ids=["text", "digits", "nothing"])
def test_what_a_fork_writes_to_its_first_process_ends_the_fork_alone(text: str, operations: Any) -> None:
    with Child(modules=LIGHT) as child:
        template_of(child)
        with pytest.raises(ChildError) as raised:
            child.request(operations.forge, timeout_s=20, text=text)
    assert raised.value.kind in ("signal", "exit")


def test_a_fork_finds_no_processes_under_its_own(operations: Any) -> None:
    with Child(modules=LIGHT) as child:
        template_of(child)
        assert child.request(operations.uncover, timeout_s=20) == {"seen": []}


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
def test_a_keeper_whose_number_is_not_known_does_nothing(
    error: type[BaseException], operations: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child(modules=LIGHT) as child:
        template = template_of(child)
    before = num_descriptors()

    def lost(self: templates.Template) -> Any:
        read(self)
        raise error

    read = templates.Template._read
    with monkeypatch.context() as patch:
        patch.setattr(templates.Template, "_read", lost)
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                Child(modules=LIGHT)
            assert template._process.poll() is not None
    with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr(templates.Template, "_read", lost if error is TimeoutError else read)
        child = stack.enter_context(Child(modules=LIGHT))
        assert isinstance(child._process, subprocess.Popen)
        time.sleep(0.3)
        assert child._scratch.path.exists(), "no other keeper removes it"
        assert child.request(operations.where, timeout_s=20)["pid"] == child.pid
    if error is TimeoutError:
        assert num_descriptors() == before - 1, "but for the template's socket"


@pytest.mark.usefixtures("own")
def test_a_system_without_process_descriptors_starts_workers(operations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Child(modules=LIGHT) as child:
        template_of(child)
    before = num_descriptors()

    def missing(*_: Any) -> int:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", missing)
        with Child(modules=LIGHT) as child:
            assert isinstance(child._process, subprocess.Popen)
            assert child.request(operations.where, timeout_s=20)["pid"] == child.pid
    assert num_descriptors() == before - 1, "but for the template's socket"


def test_a_fork_reaches_neither_its_template_nor_other_forks(operations: Any) -> None:
    with Child(modules=LIGHT) as one, Child(modules=LIGHT) as other:
        template = template_of(one)
        assert template is template_of(other)
        assert all(child.request(operations.where, timeout_s=20) for child in (one, other))
        keepers = [psutil.Process(child._process.pid) for child in (one, other)]
        workers = [process.pid for keeper in keepers for process in keeper.children(recursive=True)]
        assert len(workers) == 4, "the first process of each one's namespaces, and its worker"
        pids = [os.getpid(), template._process.pid, *(keeper.pid for keeper in keepers), *workers]
        pids = [pid for pid in pids if pid > 2 and pid != one.request(operations.where, timeout_s=20)["pid"]]
        assert one.request(operations.attack, timeout_s=20, pids=pids)["reached"] == []
        assert len(other.request(operations.where, timeout_s=20)["seen"]) == 2, "it goes on"
        with Child() as started:  # from a process that is not apart, the same attack reaches them
            assert set(started.request(operations.attack, timeout_s=20, pids=workers)["reached"]) == set(workers)


@pytest.mark.usefixtures("own")
def test_nothing_of_a_fork_is_left(operations: Any) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    with Child(modules=LIGHT) as child:
        template = template_of(child)
        child.request(operations.leave_behind, timeout_s=20, mark=mark)
        folder = child._scratch.path
        assert any(mark in process.info["cmdline"] for process in running())
    assert not [process for process in running() if mark in (process.info["cmdline"] or ())]
    assert not folder.exists()
    for _ in range(3):
        with Child(modules=LIGHT) as child:
            child.request(operations.where, timeout_s=20)
    deadline = time.monotonic() + 20
    while psutil.Process(template._process.pid).children(recursive=True):
        assert time.monotonic() < deadline, "a zombie is left"
        time.sleep(0.02)


def num_descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def running() -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"]]


@pytest.mark.usefixtures("own")
def test_a_template_that_is_killed_costs_one_start(operations: Any) -> None:
    with Child(modules=LIGHT) as child:
        template = template_of(child)
        os.kill(template._process.pid, signal.SIGKILL)
        assert len(child.request(operations.where, timeout_s=20)["seen"]) == 2, "a fork outlives its template"
    with Child(modules=LIGHT) as child:
        assert isinstance(child._process, subprocess.Popen)
        assert child.request(operations.where, timeout_s=20)["pid"] > 2


@pytest.mark.parametrize(
    "text",
    [
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "import os\npipe = os.pipe()",
        "import nothing_of_this_name",
        "raise SystemExit",
        "import os\nos._exit(1)",
    ],
    ids=["thread", "descriptor", "missing", "exit", "end"],
)
def test_what_cannot_be_forked_is_started(text: str, operations: Any, own: templates.Templates, imported: Path) -> None:
    name = f"imported_{uuid.uuid4().hex}"
    (imported / f"{name}.py").write_text(text)
    for _ in range(2):
        with Child(modules=(name,)) as child:
            assert isinstance(child._process, subprocess.Popen)
            assert child.request(operations.where, timeout_s=20)["pid"] > 2
    assert not [*own._living()]


@pytest.mark.usefixtures("own")
def test_few_templates_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST", 2)
    pids = []
    for module in ("decimal", "fractions", "statistics"):
        with Child(modules=(module,)) as child:
            pids.append(template_of(child)._process.pid)
    assert [psutil.pid_exists(pid) for pid in pids] == [False, True, True]


HANGING = """
    import os, sys, threading, time
    from bench.measure import process, templates
    def end():
        while not os.path.exists(sys.argv[2]):  # until it imports
            time.sleep(0.01)
        print(*(one.pid for one in templates.Template.starting), flush=True)
        process.kill_all() if sys.argv[1] == "kill_all" else os.kill(os.getpid(), 9)
    threading.Thread(target=end).start()
    with process.Child(modules=("hanging",)) as child:
        print(type(child._process).__name__, flush=True)
"""


@pytest.mark.parametrize("ending", ["kill_all", "kill"])
def test_an_import_that_hangs_ends_with_what_waits_for_it(
    ending: str, operations: Any, imported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child(modules=LIGHT) as child:
        template_of(child)
    begun = imported / "begun"
    (imported / "hanging.py").write_text(f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(100)")
    command = [sys.executable, "-c", textwrap.dedent(HANGING), ending, str(begun)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout.split()
    assert told[1:] == (["Popen"] if ending == "kill_all" else [])
    deadline = time.monotonic() + 10
    while psutil.pid_exists(int(told[0])) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(told[0]))


def test_nothing_is_imported_where_there_are_no_namespaces(own: templates.Templates, imported: Path) -> None:
    note = imported / "note"
    (imported / "noting.py").write_text(f"import pathlib\npathlib.Path({str(note)!r}).touch()")
    (imported / "sitecustomize.py").write_text(
        "from bench.measure import namespaces\nnamespaces.can_be_apart = lambda: False"
    )
    with Child(modules=("noting",)) as child:
        assert isinstance(child._process, subprocess.Popen)
    assert not note.exists()


PARENT = """
    import os, sys, time
    sys.path.insert(0, {folder!r})
    import {name} as operations
    from bench.measure.process import Child
    child = Child(modules=("decimal",))
    template = child._process._template._process.pid
    print(template, child._process.pid, child.pid, flush=True)
    child.request(operations.hang, timeout_s=60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_templates_and_forks_end_with_a_parent_that_is_killed(number: int, operations: Any) -> None:
    with Child(modules=LIGHT) as child:
        template_of(child)
    text = textwrap.dedent(PARENT).format(folder=str(Path(operations.__file__).parent), name=operations.__name__)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert all(map(psutil.pid_exists, pids))
        parent.send_signal(number)
    deadline = time.monotonic() + 10
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
