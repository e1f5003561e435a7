"""One cluster on disk: its folder, creation, server start and socket.

Every function expects the caller to hold the start lock, and ignores users.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, urlencode

from regente.postgres import server_lifetime
from regente.postgres.binaries import (
    MAJOR_VERSION,
    Account,
    programs_for,
    server_environment,
    shell_safe,
)
from regente.postgres.errors import EmbeddedPostgresError, explain
from regente.postgres.server_lifetime import Lock, ServerFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

_PORT = 5432
_INITDB_SECONDS = 180.0
_LOG_ROTATE_BYTES = 16 * 1024 * 1024
# sun_path holds 104 bytes on macOS and 108 on Linux, with the closing zero and the name of the
# socket itself.
_SOCKET_FOLDER_BYTES = 104 - 1 - len(f"/.s.PGSQL.{_PORT}.lock")
# Characters that neither libpq's list of hosts nor PostgreSQL's list of folders splits.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+~-]+")


def prepare_folder(data_dir: Path) -> None:
    """Creates the data folder, closed to others. Root's is passable, and so are the folders made
    above it, so that the server's account gets to its part; an ordinary user's obey the umask."""
    is_root = os.geteuid() == 0
    for missing in [path for path in reversed(data_dir.parents) if not path.exists()]:
        missing.mkdir(exist_ok=True)
        if is_root:
            missing.chmod(0o755)
    is_ours = (
        not data_dir.exists() or (data_dir / "start.lock").exists() or not any(data_dir.iterdir())
    )
    data_dir.mkdir(mode=0o700, exist_ok=True)
    if is_ours and data_dir.stat().st_uid == os.geteuid():
        data_dir.chmod(0o711 if is_root else 0o700)


def ensure_cluster(files: ServerFiles, account: Account) -> None:
    if not account.can_enter(files.data_dir):
        raise EmbeddedPostgresError(
            f"PostgreSQL refuses to run as root and so runs as uid {account.uid}, which "
            "cannot pass through "
            f"the folders above {files.data_dir}. Set REGENTE_DATA_DIR to a folder that it "
            "can reach, "
            "such as /var/lib/regente, or run Regente as an ordinary user."
        )
    version_file = files.cluster / "PG_VERSION"
    if not version_file.exists():
        _create_cluster(files, account)
    version = version_file.read_text().strip()
    if version != str(MAJOR_VERSION):
        raise EmbeddedPostgresError(
            f"The data in {files.cluster} are of PostgreSQL {version}, and this is "
            f"PostgreSQL {MAJOR_VERSION}. Copy "
            f"them over with pg_dump from a PostgreSQL {version} server, or set "
            "REGENTE_DATA_DIR to another folder."
        )


def _create_cluster(files: ServerFiles, account: Account) -> None:
    # Under another name until it is complete, so that a crash leaves nothing that looks like a
    # cluster.
    unfinished = files.data_dir / "postgres.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    account.chown(unfinished)
    # The builtin provider needs no locale of the operating system. Trust is safe: only the server's
    # account and root can enter the socket's folder, and there is no TCP port.
    options = ["-D", str(unfinished), "-U", "regente"]
    options += ["--auth=trust", "--encoding=UTF8", "--locale=C", "--locale-provider=builtin"]
    options += ["--builtin-locale=C.UTF-8", "--no-instructions"]
    options += [
        "-c",
        "max_connections=200",
        "-c",
        "shared_buffers=256MB",
        "-c",
        "log_checkpoints=off",
    ]
    with shell_safe(programs_for(account, files.data_dir)) as programs:
        done = subprocess.run(
            [str(programs / "initdb"), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=server_environment(),
            timeout=_INITDB_SECONDS,
            check=False,
            **account.switch,
        )
    if done.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise explain(
            f"PostgreSQL's initdb failed in {files.data_dir}.",
            done.stdout.decode(errors="replace").strip(),
        )
    unfinished.rename(files.cluster)
    _sync_folder(files.data_dir)


def start_server(files: ServerFiles, account: Account) -> None:
    """Start the postmaster without waiting; it may still recover, or fail."""
    refuse_foreign_server(files)
    socket_folder = _prepare_socket_folder(files, account)
    # The server lock was free, so the processes that these files name are dead, even if a pid is
    # reused or a zombie; PostgreSQL itself would refuse to start in both cases.
    for stale_file in (files.postmaster_pid, *socket_folder.glob(".s.PGSQL.*")):
        stale_file.unlink(missing_ok=True)
    command = [str(programs_for(account, files.data_dir) / "postgres"), "-D", str(files.cluster)]
    command += [
        "-c",
        "listen_addresses=",
        "-c",
        f"port={_PORT}",
        "-c",
        "unix_socket_permissions=0700",
    ]
    command += ["-c", f"unix_socket_directories={socket_folder}"]
    with Lock(files.server_lock) as lock, _open_log(files.log) as log:
        if not lock.try_exclusive():
            raise EmbeddedPostgresError(
                f"A PostgreSQL server started in {files.data_dir} at the same time: try again."
            )
        _spawn_detached(command, log, lock.fd, account)


def refuse_foreign_server(files: ServerFiles) -> None:
    pid = files.live_postmaster()
    if pid is not None:
        raise EmbeddedPostgresError(
            f"The server process {pid}, which Regente did not start, works in {files.cluster}. "
            f"Stop it first: pg_ctl stop -D '{files.cluster}'"
        )


def ensure_monitor(files: ServerFiles) -> None:
    """Start the monitor unless its lock is held; it inherits that lock, so there is only one."""
    with Lock(files.monitor_lock) as lock, _open_log(files.log) as log:
        if lock.try_exclusive():
            command = [
                sys.executable,
                "-I",
                "-S",
                server_lifetime.__file__,
                str(files.data_dir),
                str(lock.fd),
            ]
            _spawn_detached(command, log, lock.fd, Account(os.geteuid(), os.getegid()))


def is_ready(files: ServerFiles) -> bool:
    """True when the server's own record says that it accepts connections."""
    lines = files.recorded_postmaster()
    return len(lines) >= 8 and lines[7].strip() == "ready"


def server_url(files: ServerFiles, database: str = "regente") -> str:
    """The libpq URL of the server, from its own record."""
    _, _, _, port, socket_folder, *_ = files.recorded_postmaster()
    # Each of these could otherwise be set by PGHOSTADDR, PGOPTIONS, PGSSLMODE, …
    pinned = {"hostaddr": "", "options": "", "sslmode": "disable", "gssencmode": "disable"}
    pinned |= {"channel_binding": "disable", "target_session_attrs": "any"}
    parameters = urlencode(
        {"host": socket_folder, "port": port, **pinned}, safe="/", quote_via=quote
    )
    return f"postgresql://regente@/{database}?{parameters}"


def socket_was_removed(files: ServerFiles) -> bool:
    """True for a running server whose socket file is gone, as after a cleanup of /tmp."""
    if not is_ready(files):
        return False
    _, _, _, port, socket_folder, *_ = files.recorded_postmaster()
    return not Path(socket_folder, f".s.PGSQL.{port}").exists()


def _prepare_socket_folder(files: ServerFiles, account: Account) -> Path:
    """Return the socket's folder: beside the data, or in /tmp when that path is too long."""
    folder = files.data_dir / "socket"
    if len(os.fsencode(folder)) <= _SOCKET_FOLDER_BYTES and _PLAIN_PATH.fullmatch(str(folder)):
        folder.mkdir(mode=0o700, exist_ok=True)
    else:
        digest = hashlib.sha256(os.fsencode(files.data_dir)).hexdigest()[:16]
        folder = Path("/tmp", f"regente-{account.uid}-{digest}")  # noqa: S108 - checked below
        folder = (
            folder
            if _is_closed_folder_of(account, folder)
            else Path(tempfile.mkdtemp("", "regente-", "/tmp"))
        )
    account.chown(folder)
    folder.chmod(0o700)
    return folder


def _is_closed_folder_of(account: Account, folder: Path) -> bool:
    """True for a folder that only the account can enter; in /tmp it may be another user's."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        return (
            stat.S_ISDIR(found.st_mode)
            and found.st_uid == account.uid
            and not found.st_mode & 0o077
        )
    return True


def _spawn_detached(command: Sequence[str], log: BinaryIO, lock_fd: int, account: Account) -> None:
    """Start a process in its own session that holds the lock it inherits."""
    # The shell ends at once, so the process is not our child: a zombie would look like a live
    # server.
    subprocess.run(
        ["/bin/sh", "-c", '"$@" &', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=server_environment(),
        pass_fds=[lock_fd],
        start_new_session=True,
        check=True,
        **account.switch,
    )


def _open_log(log: Path) -> BinaryIO:
    if log.exists() and log.stat().st_size > _LOG_ROTATE_BYTES:
        log.replace(log.with_name(log.name + ".1"))
    return os.fdopen(
        os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600),
        "wb",
        buffering=0,
    )


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
