"""Sub-commands of `ledgerd`. Errors say what to do next; exit code 2 = misused or cannot start."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ledgerd.anchoring.setup import AnchorSetupError, read_trusts, warnings
from ledgerd.config import Settings
from ledgerd.config_load import ConfigError, load_settings
from ledgerd.config_show import as_json_values, as_text
from ledgerd.daemon import StartError, run
from ledgerd.devtsa.command import serve as serve_dev_tsa
from ledgerd.devtsa.faults import Mode
from ledgerd.devtsa.folder import DevTsaError
from ledgerd.devtsa.pki import KeyKind  # noqa: TC001 - typer looks the annotation up
from ledgerd.formats import FormatsError, open_formats
from ledgerd.logs import configure_logs
from ledgerd.maintenance import MaintenanceError
from ledgerd.maintenance import fsck as check_folder
from ledgerd.maintenance import refused as show_refused
from ledgerd.signer import LogKeyError, create_log_key
from receiptledger import __version__

__all__ = ["app"]

app = typer.Typer(
    name="ledgerd",
    help="Append-only receipt ledger: ingests signed receipts, seals them into a Merkle log, proves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the database.")]
Listen = Annotated[str | None, typer.Option("--listen", help="HOST:PORT of gRPC.")]
Http = Annotated[str | None, typer.Option("--http", help="HOST:PORT of HTTP.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Any other setting, as NAME=VALUE. Repeatable.")
]


@app.command()
def serve(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    listen: Listen = None,
    http: Http = None,
    settings: Sets = None,
    create_guard: Annotated[
        bool,
        typer.Option(
            "--create-guard", help="Accept a missing guard file, once, for a log that has leaves."
        ),
    ] = False,
) -> None:
    """Run the daemon in the foreground until SIGTERM or SIGINT."""
    loaded = _load(config, data_dir, listen, http, settings)
    configure_logs(loaded.log_level, loaded.log_format)
    try:
        code = run(loaded, create_guard=create_guard)
    except StartError as error:
        _fail(str(error))
    raise typer.Exit(code)


@app.command("check-config")
def check_config(
    config: ConfigFile = None,
    data_dir: DataDir = None,
    listen: Listen = None,
    http: Http = None,
    settings: Sets = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Check the configuration and show every setting: value, default and what it is for."""
    loaded = _load(config, data_dir, listen, http, settings)
    try:
        read_trusts(loaded)
        open_formats(loaded.profiles_dir)
    except (AnchorSetupError, FormatsError) as error:
        _fail(str(error))
    if as_json:
        typer.echo(json.dumps(as_json_values(loaded), indent=2))
    else:
        for line in as_text(loaded):
            typer.echo(line)
    for warning in warnings(loaded, datetime.now(UTC)):
        typer.echo(f"WARNING: {warning}", err=True)


@app.command()
def keygen(
    origin: Annotated[str, typer.Argument(help="Name of the log: a URL without scheme.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to create, mode 0600.")] = Path(
        "log.key"
    ),
) -> None:
    """Make a signing key for a log and print its verification key."""
    try:
        origin = Settings(origin=origin).origin
        signer = create_log_key(out, origin)
    except ValueError as error:
        _fail(f"the origin {origin!r} cannot name a log: {error}")
    except LogKeyError as error:
        _fail(str(error))
    typer.echo(str(signer.verifier))


@app.command()
def fsck(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data folder of a daemon that is not running.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    log_key: Annotated[
        str | None,
        typer.Option("--log-key", help="Verification key of the log; default: DIR/log.key's."),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option("--guard", help="Guard file; default: DIR/guard.")
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option(
            "--profiles",
            metavar="FOLDER",
            help="Further receipt formats: the setting profiles_dir.",
        ),
    ] = None,
) -> None:
    """Check everything stored against everything else: 0 clean, 1 problems, 2 cannot be read."""
    try:
        formats = open_formats(profiles, "--profiles").profiles
        code = check_folder(folder, log_key=log_key, guard=guard, profiles=formats, as_json=as_json)
    except (MaintenanceError, FormatsError) as error:
        _fail(str(error))
    raise typer.Exit(code)


@app.command()
def refused(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data folder of a daemon that is not running.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Write each as .tsq, .tsr and .note into this folder."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """List the answers of timestamp authorities that were refused and kept; 2 cannot be read."""
    try:
        show_refused(folder, out=out, as_json=as_json)
    except MaintenanceError as error:
        _fail(str(error))


@app.command("dev-tsa")
def dev_tsa(
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Its folder; made at the first start.")
    ] = Path("dev-tsa"),
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0: as before, or a free one."),
    ] = 0,
    key: Annotated[
        KeyKind | None, typer.Option(help="Key of its certificate; default p256.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="In its certificates and settings; default dev.")
    ] = None,
    mode: Annotated[Mode, typer.Option(help="How it answers, to try failures out.")] = Mode.OK,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Run a timestamp authority for development on 127.0.0.1. NOT FOR PRODUCTION.

    It has its own root, stamps with the openssl command (version 3), and serves CRLs and OCSP.
    """
    try:
        serve_dev_tsa(folder, typer.echo, name=name, key=key, port=port, mode=mode, as_json=as_json)
    except DevTsaError as error:
        _fail(str(error))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def _load(
    config: Path | None,
    data_dir: Path | None,
    listen: str | None,
    http: str | None,
    assignments: list[str] | None,
) -> Settings:
    flags: dict[str, Any] = {}
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals:
            _fail(f"--set expects NAME=VALUE, got {text!r}")
        flags[name] = value
    given = {"data_dir": data_dir, "listen": listen, "http_listen": http}
    flags |= {name: value for name, value in given.items() if value is not None}
    try:
        return load_settings(config, flags)
    except ConfigError as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(f"ledgerd: {message}", err=True)
    raise typer.Exit(2)
