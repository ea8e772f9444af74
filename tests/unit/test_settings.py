"""Settings survive a crash, a typo and a newer version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.errors import SettingsError
from app.settings import LONGEST_RECENT, Settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "settings.json"


def written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_what_is_saved_is_loaded(file: Path) -> None:
    chosen = Settings(
        "dark", near_tie=0.05, text_scale=1.5, threads=2, last_model="é.gguf", recent=["/a"], window_size=(1280, 800)
    )
    chosen.file = file
    chosen.save()
    assert Settings.load(file) == chosen and Settings.load(file).notice == ""
    assert [entry.name for entry in file.parent.iterdir()] == ["settings.json"]


def test_without_a_file_the_defaults_hold_in_silence(file: Path) -> None:
    assert Settings.load(file) == Settings() and Settings.load(file).notice == ""


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '"text"', "\x00\x01"])
def test_a_broken_file_is_set_aside_and_said_and_kept(file: Path, text: str) -> None:
    settings = Settings.load(written(file, text))
    notice = settings.notice
    assert settings == Settings()
    aside = file.with_name("settings.broken-1.json")
    assert str(aside) in notice and "defaults" in notice
    assert aside.read_text(encoding="utf-8") == text and not file.exists()


def test_a_file_that_is_no_text_is_set_aside(file: Path) -> None:
    written(file, "")
    file.write_bytes(b"\xff\xfe\x00")
    assert Settings.load(file) == Settings()
    assert file.with_name("settings.broken-1.json").read_bytes() == b"\xff\xfe\x00"


def test_a_second_broken_file_does_not_replace_the_first(file: Path) -> None:
    for text in ("first {", "second {"):
        Settings.load(written(file, text))
    kept = [file.with_name(f"settings.broken-{n}.json").read_text(encoding="utf-8") for n in (1, 2)]
    assert kept == ["first {", "second {"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("theme", "purple"), ("theme", ["dark"]), ("near_tie", -1), ("near_tie", "0.1"), ("near_tie", float("nan")),
        ("near_tie", True), ("text_scale", 0), ("text_scale", 1e9), ("threads", 1.5), ("threads", -1),
        ("recent", "a.forkpoint"), ("recent", [1]), ("last_model", None), ("window_size", [1]),
        ("window_size", [1, "2"]), ("window_size", [-5, 800]), ("window_size", 5),
    ],
)  # fmt: skip
def test_one_bad_value_is_named_and_the_other_values_hold(file: Path, name: str, value: object) -> None:
    good = {"theme": "dark"} if name != "theme" else {"threads": 3}
    settings = Settings.load(written(file, json.dumps({name: value, **good})))
    assert settings == Settings(**good)
    assert f"The setting {name} is" in settings.notice and "set aside" in settings.notice
    setattr(settings, name, value)
    with pytest.raises(SettingsError, match=name):
        settings.save()
    assert not file.exists()


def test_a_broken_file_that_cannot_be_set_aside_is_not_saved_over(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refused)
    settings = Settings.load(written(file, "{"))
    settings.save()
    assert "Permission denied" in settings.notice and file.read_text(encoding="utf-8") == "{"


def test_a_setting_of_a_newer_version_is_passed_over(file: Path) -> None:
    settings = Settings.load(written(file, '{"theme": "light", "new_thing": 5, "file": "/x", "notice": "x"}'))
    assert settings == Settings(theme="light") and (settings.file, settings.notice) == (file, "")


def test_settings_from_no_file_are_not_saved_over_a_persons_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.paths.settings_file", lambda: file)
    Settings(theme="dark").save()
    assert not file.exists()
    assert Settings.load().file == file


def test_a_save_that_fails_leaves_the_old_file_whole_and_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Settings(theme="light", file=file).save()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SettingsError, match="No space left"):
        Settings(theme="dark", file=file).save()
    assert Settings.load(file).theme == "light"
    assert [entry.name for entry in file.parent.iterdir()] == ["settings.json"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    written(tmp_path / "file", "in the way")
    with pytest.raises(SettingsError, match="cannot be saved"):
        Settings(file=tmp_path / "file" / "settings.json").save()


def test_a_file_that_cannot_be_read_is_said_and_left_alone(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path)
    assert settings == Settings() and "cannot be read" in settings.notice and tmp_path.is_dir()
    assert settings.file is None


def test_recent_files_are_newest_first_without_repeats_and_only_those_that_are_there(tmp_path: Path) -> None:
    settings = Settings()
    files = [tmp_path / f"{number}.forkpoint" for number in range(LONGEST_RECENT + 3)]
    for each in (*files, files[5]):
        settings.remember(each)
    assert len(settings.recent) == LONGEST_RECENT and settings.recent[0] == str(files[5])
    files[6].touch()
    assert settings.recent_files() == [files[6]]
