"""An operator's own receipt formats: in the daemon, in its verifying processes, in check-config and fsck."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from ledgerd.commands import app
from ledgerd.daemon import Daemon, StartError
from tests.helpers.daemons import open_daemon, settings_for
from tests.helpers.other_agents import NUMBERED, NumberedAgent
from tests.helpers.peer import open_peer, outcomes, run

if TYPE_CHECKING:
    from pathlib import Path

AGENT = NumberedAgent("agent-3", 4)
RAWS = AGENT.receipts(3)
WRONG = {
    "no TOML": ("id = \n", "one.toml", "line 1"),
    "an unknown canonicalisation": (
        NUMBERED.replace('"jcs"', '"made"'),
        "one.toml",
        "signed.canon",
    ),
    "a member missing": (NUMBERED.replace("kid = ", "#"), "one.toml", "kid"),
    "an id that is taken": (
        NUMBERED.replace('"numbered"', '"ms-lesson18"', 1),
        "one.toml",
        "ms-lesson18",
    ),
}


def folder_with(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "one.toml").write_text(text)
    return folder


@pytest.mark.parametrize("processes", [0, 1])
def test_receipts_of_an_own_format_are_taken_and_checked_again(
    tmp_path: Path, processes: int
) -> None:
    folder = folder_with(tmp_path, NUMBERED)

    async def work() -> None:
        changes = {"profiles_dir": folder, "verify_processes": processes}
        async with open_daemon(tmp_path, **changes) as daemon, open_peer(daemon) as it:
            response = await it.seal(RAWS, key_hints=[AGENT.public_key])
            assert outcomes(response) == [("accepted", 0), ("accepted", 1), ("accepted", 2)]
            if processes:  # the process has the format too: nothing was verified twice
                assert daemon._verify_pool is not None
                assert daemon._verify_pool._setup[-1][0][1] == NUMBERED

    run(work())
    data = str(tmp_path / "data")
    result = CliRunner().invoke(app, ["fsck", data, "--profiles", str(folder), "--json"])
    assert (result.exit_code, json.loads(result.stdout)["problems"]) == (0, [])
    # Without the format nothing can be said about its receipts, and that is not clean.
    assert CliRunner().invoke(app, ["fsck", data]).exit_code == 1


@pytest.mark.parametrize(("text", "file", "member"), WRONG.values(), ids=WRONG)
def test_a_wrong_format_is_refused_before_anything_is_served(
    tmp_path: Path, text: str, file: str, member: str
) -> None:
    folder = folder_with(tmp_path, text)
    call = ["check-config", "--set", f"profiles_dir={folder}"]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 2
    assert result.stderr.startswith("ledgerd: profiles_dir: ")
    assert file in result.stderr
    assert member in result.stderr

    async def start() -> None:
        await Daemon(settings_for(tmp_path, profiles_dir=folder)).start()

    with pytest.raises(StartError) as caught:
        asyncio.run(start())
    assert f"ledgerd: {caught.value}\n" == result.stderr
    assert not (tmp_path / "data").exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    call = ["check-config", "--set", f"profiles_dir={tmp_path / 'none'}"]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 2
    assert "profiles_dir: cannot read the folder" in result.stderr
