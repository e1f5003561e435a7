"""`regente secrets …`: the key that encrypts the fleet's keys and passwords."""

from __future__ import annotations

from typing import Annotated

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.output import facts, plural
from regente.engine.errors import IllegalTransition
from regente.fleet.secrets import add_key, keep_first_key
from regente.postgres.embedded import default_data_dir

secrets = typer.Typer(
    name="secrets", help="Rotate the key of the fleet's secrets.", no_args_is_help=True
)


@command(secrets, "status", example="regente secrets status")
async def status(context: CommandContext) -> None:
    """Show the key that encrypts, and how many secrets are under it or under a former one."""
    async with context.app("missions") as app:
        counts = await app.fleet.secrets_by_key()
        document = {"key": app.fleet.secrets.key_id, **counts}
    context.answer(document, lambda: facts([(name, str(one)) for name, one in document.items()]))


@command(secrets, "rotate", audited="secrets.rotate", example="regente secrets rotate --new-key")
async def rotate(
    context: CommandContext,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="First add a new key to the key file.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget-former", help="Then remove the former keys from the key file."),
    ] = False,
) -> None:
    """Encrypt the fleet's secrets with the current key, while everything runs.

    With a key file, running processes of this folder notice a new key by themselves; copy the file
    to other machines before. With REGENTE_SECRET_KEY: start all processes with the new key in
    REGENTE_FORMER_SECRET_KEY, then with the two exchanged, rotate, and leave the old one out.
    """
    folder = context.settings.data_dir or default_data_dir()
    if context.settings.secret_key and (new_key or forget):
        raise IllegalTransition(
            "the key is REGENTE_SECRET_KEY, not a file: see `regente secrets rotate --help`"
        )
    if new_key:
        add_key(folder)
    async with context.app("missions") as app:
        app.fleet.secrets.reload()
        done = await app.fleet.rotate_secrets(by=BY)
        if forget:
            if (await app.fleet.secrets_by_key())["former"]:
                raise IllegalTransition("a secret was stored under a former key: rotate again")
            keep_first_key(folder)
        document = {"rotated": done, "key": app.fleet.secrets.key_id}
    context.answer(
        document, lambda: f"{plural(done, 'secret')} now under the key {document['key']}."
    )
