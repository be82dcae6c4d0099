from __future__ import annotations

import pytest

from termarena.tasks.dockerfile import parse_dockerfile, substituted


def _names(text: str) -> list[tuple[str, str, int]]:
    return [(one.name, one.value, one.line) for one in parse_dockerfile(text).instructions]


def test_continuations_are_joined_and_comments_inside_them_dropped() -> None:
    text = "FROM a:1\n\nrun one \\\n# why\n\n    two \\  \n  three\nCMD x"
    assert _names(text) == [("FROM", "a:1", 1), ("RUN", "one two three", 3), ("CMD", "x", 8)]


def test_windows_line_endings_and_a_byte_order_mark_do_not_matter() -> None:
    assert _names("\ufeffFROM a:1\r\nRUN x \\\r\n y\r\n") == [("FROM", "a:1", 1), ("RUN", "x y", 2)]


def test_another_escape_character_is_obeyed_only_before_the_first_instruction() -> None:
    assert _names("# escape=`\nFROM a:1\nRUN x `\n y\n") == [("FROM", "a:1", 2), ("RUN", "x y", 3)]
    assert [name for name, _, _ in _names("FROM a:1\n# escape=`\nRUN x `\n y\n")] == ["FROM", "RUN", "Y"]


def test_here_documents_are_no_instructions() -> None:
    text = "FROM a:1\nRUN <<A cat >x && <<-'B' cat\nCOPY no\nA\n  B\n\tB\nCOPY <<C /c\nhi\nC\nUSER u\n"
    parsed = parse_dockerfile(text)
    assert [one.name for one in parsed.instructions] == ["FROM", "RUN", "COPY", "USER"]
    run, copy = parsed.instructions[1:3]
    assert [(doc.name, doc.body, doc.line) for doc in run.heredocs] == [("A", "COPY no", 3), ("B", "  B", 5)]
    assert [doc.body for doc in copy.heredocs] == ["hi"]
    assert parsed.stages[0].copies()[0].sources == ()


@pytest.mark.parametrize("text", ["RUN echo '<<A'\nUSER u\n", "RUN cat<<A\nUSER u\n", "CMD x <<A\nUSER u\n"])
def test_what_buildkit_takes_for_no_here_document_is_none(text: str) -> None:
    assert [one.name for one in parse_dockerfile(text).instructions][-1] == "USER"


def test_a_here_document_that_never_closes_is_marked() -> None:
    assert not parse_dockerfile("RUN <<A\ntrue\n").instructions[0].heredocs[0].is_closed


def test_flags_stand_apart_and_both_forms_of_arguments_are_read() -> None:
    text = 'FROM --platform=linux/arm64 a:1 AS x\nCOPY --chown=1:1 --from=x ["a b", "/c/"]\nADD \'d e\' f /g/\n'
    stage = parse_dockerfile(text).stages[0]
    assert stage.instruction.flags == {"platform": "linux/arm64"}
    assert (stage.image, stage.name) == ("a:1", "x")
    first, second = stage.copies()
    assert (first.sources, first.destination, first.is_from_context) == (("a b",), "/c/", False)
    assert (second.sources, second.destination, second.is_from_context) == (("d e", "f"), "/g/", True)


def test_variables_are_filled_in_where_they_are_known() -> None:
    text = "ARG V=12\nFROM debian:${V}\nENV A=x B='y z'\nARG C=w\nCOPY $A/${B}/${C:-no}/${D:-d} $E/\n"
    parsed = parse_dockerfile(text)
    assert parsed.stages[0].image == "debian:12"
    copy = parsed.stages[0].copies()[0]
    assert (copy.sources, copy.destination) == (("x/y z/w/d",), "$E/")
    assert substituted("${A:+set}${B:+set}", {"A": "1"}) == "set"


def test_the_old_form_of_env_is_read() -> None:
    assert parse_dockerfile("ENV NAME some words\n").instructions[0].assignments() == {"NAME": "some words"}


def test_onbuild_holds_another_instruction() -> None:
    one = parse_dockerfile("FROM a:1\nONBUILD COPY . /x\n").instructions[1]
    assert (one.name, one.is_onbuild, one.value) == ("COPY", True, ". /x")


def test_the_image_is_the_last_stage_and_what_it_is_built_upon() -> None:
    parsed = parse_dockerfile("FROM a:1 AS One\nFROM b:1 AS two\nFROM one\nWORKDIR /a\nWORKDIR b\nUSER x\nUSER y\n")
    assert [stage.image for stage in parsed.image_stages] == ["a:1", "one"]
    last = parsed.stages[-1]
    user = last.last("USER")
    assert (last.workdir(), user and user.value) == ("/a/b", "y")


def test_stages_that_name_each_other_do_not_go_round_for_ever() -> None:
    assert len(parse_dockerfile("FROM b AS a\nFROM a AS b\n").image_stages) == 2
