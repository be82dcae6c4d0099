from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from termarena.core.errors import UsageError
from termarena.core.settings import SETTING_NAMES, Origin, ResolvedSettings, resolve_settings, variable_of

if TYPE_CHECKING:
    from pathlib import Path


class Desk:
    """A user's folder with a project inside it; nothing else is seen."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root, root / "work" / "project"
        self.user_file = root / ".config" / "termarena" / "termarena.toml"
        self.project_file = self.project / "termarena.toml"
        self.environment = {"HOME": str(root)}
        for file in (self.user_file, self.project_file):
            file.parent.mkdir(parents=True)

    def resolve(self, **flags: object) -> ResolvedSettings:
        named = {name.replace("_", ".", 1): value for name, value in flags.items()}
        return resolve_settings(named, environment=self.environment, folder=self.project)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_without_files_everything_is_a_default(desk: Desk) -> None:
    resolved = desk.resolve()
    assert resolved.settings.paths.home == desk.home / ".cache/termarena"
    assert resolved.settings.tasks.strict is False
    assert resolved.settings.datasets.sources == {}
    assert set(resolved.origins.values()) == {Origin("default")}
    assert [file.is_there for file in resolved.files] == [False, False]


def test_flag_beats_variable_beats_project_beats_user_beats_default(desk: Desk) -> None:
    seen = [desk.resolve().origins["tasks.strict"]]
    desk.user_file.write_text("[tasks]\nstrict = true\n")
    seen.append(desk.resolve().origins["tasks.strict"])
    desk.project_file.write_text("[tasks]\nstrict = false\n")
    seen.append(desk.resolve().origins["tasks.strict"])
    assert desk.resolve().settings.tasks.strict is False
    desk.environment["TERMARENA_TASKS_STRICT"] = "1"
    seen.append(desk.resolve().origins["tasks.strict"])
    assert desk.resolve().settings.tasks.strict is True
    final = desk.resolve(tasks_strict=False)
    assert final.settings.tasks.strict is False
    assert [*seen, final.origins["tasks.strict"]] == [
        Origin("default"),
        Origin("user", str(desk.user_file)),
        Origin("project", str(desk.project_file)),
        Origin("environment", "TERMARENA_TASKS_STRICT"),
        Origin("flag", "--strict"),
    ]


def test_a_flag_that_was_not_given_changes_nothing(desk: Desk) -> None:
    desk.user_file.write_text("[tasks]\nstrict = true\n")
    assert desk.resolve(tasks_strict=None).settings.tasks.strict is True


def test_the_project_file_is_the_nearest_one_upwards(desk: Desk) -> None:
    below = desk.project / "a" / "b"
    below.mkdir(parents=True)
    desk.project_file.write_text("[tasks]\nstrict = true\n")
    (desk.home / "work" / "termarena.toml").write_text("[tasks]\nstrict = false\n")
    resolved = resolve_settings(environment=desk.environment, folder=below)
    assert resolved.origins["tasks.strict"] == Origin("project", str(desk.project_file))


def test_the_users_file_is_not_also_a_projects(desk: Desk) -> None:
    desk.user_file.write_text("[tasks]\nstrict = true\n")
    resolved = resolve_settings(environment=desk.environment, folder=desk.user_file.parent)
    assert resolved.origins["tasks.strict"].kind == "user"
    assert resolved.files[0].is_there is False


def test_xdg_config_home_moves_the_users_file(desk: Desk, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "termarena" / "termarena.toml"
    moved.parent.mkdir(parents=True)
    moved.write_text("[tasks]\nstrict = true\n")
    desk.environment["XDG_CONFIG_HOME"] = str(tmp_path / "elsewhere")
    assert desk.resolve().origins["tasks.strict"] == Origin("user", str(moved))


def test_sources_of_both_files_are_joined_name_by_name(desk: Desk) -> None:
    desk.user_file.write_text('[datasets.sources]\nmine = "/user"\nshared = "/user"\n')
    desk.project_file.write_text('[datasets.sources]\nshared = "/project"\n"odd.name@1" = "/dotted"\n')
    desk.environment["TERMARENA_DATASETS_SOURCES"] = "extra=/e other=git+ssh://host/x?a=b"
    resolved = desk.resolve()
    assert resolved.settings.datasets.sources == {
        "mine": "/user",
        "shared": "/project",
        "odd.name@1": "/dotted",
        "extra": "/e",
        "other": "git+ssh://host/x?a=b",
    }
    assert resolved.origins["datasets.sources.shared"].kind == "project"
    assert resolved.values()["datasets.sources.odd.name@1"] == "/dotted"


def test_paths_are_relative_to_what_holds_them(desk: Desk) -> None:
    desk.project_file.write_text('[paths]\nhome = "cache"\n')
    assert desk.resolve().settings.paths.home == desk.project / "cache"
    desk.project_file.write_text('[paths]\nhome = "~/cache"\n')
    assert desk.resolve().settings.paths.home == desk.home / "cache"
    desk.environment["TERMARENA_HOME"] = "here"
    assert desk.resolve().settings.paths.home == desk.project / "here"
    desk.environment["TERMARENA_HOME"] = ""
    assert desk.resolve().origins["paths.home"].kind == "project"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[tasks]\nstrikt = true\n", "tasks.strikt: no such setting", "did you mean tasks.strict?"),
        ("[path]\nhome = 'x'\n", "path: no such setting", "did you mean paths?"),
        ("zebra = 1\n", "zebra: no such setting", "there is: paths, datasets, images, tasks"),
        ("[tasks]\nstrict = 'yes'\n", "tasks.strict: found 'yes'; expected true or false", None),
        ("[tasks]\nstrict = 1\n", "tasks.strict: found 1; expected true or false", None),
        ("tasks = 3\n", "tasks: found 3; expected a table: [tasks]", None),
        ("[paths]\nhome = 7\n", "paths.home: found 7; expected a path, in quotes", None),
        ("[paths]\nhome = ''\n", "paths.home: found ''; expected a path, in quotes", None),
        ("[datasets]\nsources = []\n", "datasets.sources: found []; expected a table", None),
        ("[datasets.sources]\na = 1\n", "datasets.sources.a: found 1; expected text", None),
        ("[tasks\n", "cannot be read as TOML", None),
    ],
)
def test_a_bad_file_is_an_error_that_names_file_and_field(
    desk: Desk, text: str, message: str, hint: str | None
) -> None:
    desk.project_file.write_text(text)
    with pytest.raises(UsageError) as caught:
        desk.resolve()
    assert str(caught.value).startswith(f"{desk.project_file}: ")
    assert message in str(caught.value)
    assert hint is None or hint in str(caught.value.hint)


def test_a_file_that_is_not_text_is_an_error(desk: Desk) -> None:
    desk.user_file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"termarena\.toml: cannot be read as TOML"):
        desk.resolve()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = " + "[" * 100_000, "cannot be read as TOML: it is nested too deeply"),
        ("tasks.strict" + ".a" * 5_000 + " = 1\n", "tasks.strict: found {'a': {"),
        ("tasks.strict = 0x" + "f" * 5_000 + "\n", "tasks.strict: found a number that is too long to show"),
        (f"paths.home = [{'7, ' * 5_000}]\n", "paths.home: found [7, 7, 7, 7, 7, 7, ...]; expected a path"),
    ],
    ids=["brackets", "dots", "digits", "items"],
)
def test_a_file_that_is_too_deep_or_too_long_is_an_error_of_one_line(desk: Desk, text: str, message: str) -> None:
    desk.project_file.write_text(text)
    with pytest.raises(UsageError) as caught:
        desk.resolve()
    told = str(caught.value).removeprefix(f"{desk.project_file}: ")
    assert told.startswith(message)
    assert len(told) < 200


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (
            "TERMARENA_TASKS_STRICT",
            "maybe",
            "TERMARENA_TASKS_STRICT: tasks.strict: found 'maybe'; expected true or false",
        ),
        ("TERMARENA_DATASETS_SOURCES", "no-source", "found 'no-source'; expected name=source pairs"),
    ],
)
def test_a_bad_variable_is_an_error_that_names_it(desk: Desk, variable: str, text: str, message: str) -> None:
    desk.environment[variable] = text
    with pytest.raises(UsageError, match=message):
        desk.resolve()


def test_an_unknown_flag_is_an_error(desk: Desk) -> None:
    with pytest.raises(UsageError, match=r"tasks\.nothing: no such setting"):
        desk.resolve(tasks_nothing=True)


def test_settings_cannot_be_changed(desk: Desk) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(desk.resolve().settings.tasks, "strict", True)  # noqa: B010 - mypy refuses the plain form, as it should


def test_every_name_has_a_variable() -> None:
    assert {name: variable_of(name) for name in SETTING_NAMES} == {
        "paths.home": "TERMARENA_HOME",
        "datasets.sources": "TERMARENA_DATASETS_SOURCES",
        "images.mirrors": "TERMARENA_IMAGES_MIRRORS",
        "tasks.strict": "TERMARENA_TASKS_STRICT",
    }
