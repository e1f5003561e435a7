"""Owns one cluster on disk: its folder, its creation, the start of its server and the address of
its socket.

Every function here expects the caller to hold the start lock, and knows nothing of users or their
number.
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
# What neither libpq's list of hosts nor PostgreSQL's list of folders would take apart.
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
    # Under another name until it is whole, so that a crash in the midst leaves nothing that looks
    # like a cluster.
    unfinished = files.data_dir / "postgres.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    account.give(unfinished)
    # The builtin provider needs no locale of the operating system. Trust is acceptable because
    # nobody but the server's account, and root, can enter the socket's folder, and there is no TCP
    # port.
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
    """Starts the postmaster and returns at once; it may then still be recovering, or fail."""
    refuse_foreign_server(files)
    socket_folder = _prepare_socket_folder(files, account)
    # The server lock was free, so whatever these name is dead, even if its pid is in use again or a
    # zombie bears it: PostgreSQL itself would refuse to start in both cases.
    for leftover in (files.postmaster_pid, *socket_folder.glob(".s.PGSQL.*")):
        leftover.unlink(missing_ok=True)
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


def ensure_keeper(files: ServerFiles) -> None:
    """The keeper inherits the very lock that shows it to be missing, so there is never a second
    one."""
    with Lock(files.keeper_lock) as lock, _open_log(files.log) as log:
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
    """Whether the server has recorded that it takes connections; asking it before would fill its
    log with refusals."""
    lines = files.recorded_postmaster()
    return len(lines) >= 8 and lines[7].strip() == "ready"


def server_url(files: ServerFiles, database: str = "regente") -> str:
    """The address that the server has recorded, for libpq."""
    _, _, _, port, socket_folder, *_ = files.recorded_postmaster()
    # Each of these could else be set from outside: PGHOSTADDR, PGOPTIONS, PGSSLMODE, …
    pinned = {"hostaddr": "", "options": "", "sslmode": "disable", "gssencmode": "disable"}
    pinned |= {"channel_binding": "disable", "target_session_attrs": "any"}
    parameters = urlencode(
        {"host": socket_folder, "port": port, **pinned}, safe="/", quote_via=quote
    )
    return f"postgresql://regente@/{database}?{parameters}"


def socket_was_removed(files: ServerFiles) -> bool:
    """True for a server that is up but out of reach, as after a zealous cleaning of /tmp."""
    if not is_ready(files):
        return False
    _, _, _, port, socket_folder, *_ = files.recorded_postmaster()
    return not Path(socket_folder, f".s.PGSQL.{port}").exists()


def _prepare_socket_folder(files: ServerFiles, account: Account) -> Path:
    """Beside the data, where no cleaner of /tmp and no private /tmp interferes; in /tmp when that
    path is too long."""
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
    account.give(folder)
    folder.chmod(0o700)
    return folder


def _is_closed_folder_of(account: Account, folder: Path) -> bool:
    """Anybody can put something there first: a link, or a folder of his own."""
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
    """Starts a process that is nobody's child and of a session of its own, holding the lock that it
    inherits."""
    # The shell ends at once, so there is no child for us to wait for; a zombie would pass for a
    # live server.
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
