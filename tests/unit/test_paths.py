"""Files lie where the platform wants them, and a run without a name never meets another one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from app import paths
from app.errors import SettingsError


def test_an_unnamed_run_gets_a_new_name_in_an_existing_folder_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path / "made" / "here")
    now = datetime(2026, 7, 11, 14, 22, 33)
    names = {paths.unnamed_run(now).name for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("run-2026-07-11-142233-") and name.endswith(".forkpoint") for name in names)
    assert paths.unnamed_run().parent.is_dir() and not any(paths.unnamed_run().parent.iterdir())


def test_a_data_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path / "file" / "data")
    with pytest.raises(SettingsError, match="cannot be made"):
        paths.unnamed_run()


def test_settings_log_and_data_are_named_after_the_product() -> None:
    for path in (paths.data_dir(), paths.settings_file(), paths.log_file()):
        assert path.is_absolute() and "forkpoint" in str(path)


def test_resources_lie_beside_the_package_as_the_wheel_packs_them() -> None:
    import app

    assert app.__file__ is not None
    assert paths.resources_dir() == Path(app.__file__).parent.parent / "resources"
    assert paths.resources_dir().is_dir()
    assert paths.sample_file().parent == paths.resources_dir()
