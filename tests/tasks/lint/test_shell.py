from __future__ import annotations

import pytest

from termarena.tasks.lint.shell import downloads, outside_host, statements


def _texts(script: str) -> list[tuple[int, str]]:
    return [(one.line, one.text) for one in statements(script)]


def test_comments_go_and_continuations_are_joined() -> None:
    script = "#!/bin/sh\n\n  # why\necho a#b \\\n  c  # not this\n"
    assert _texts(script) == [(4, "echo a#b  c")]


def test_here_documents_are_passed_over() -> None:
    script = "cat <<'A' <<-B >x\npip install y\nA\nz\n\tB\ntrue\ncat << C\n1\nC\necho $((1<<D))\nend\n"
    assert [text for _, text in _texts(script)] == ["cat <<'A' <<-B >x", "true", "cat << C", "echo $((1<<D))", "end"]


def test_a_here_document_that_never_closes_hides_nothing() -> None:
    assert _texts("cat <<A\npip install y\n") == [(1, "cat <<A"), (2, "pip install y")]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("apt-get update", "apt-get update"),
        ("sudo apt-get -y -q install git", "apt-get -y -q install"),
        ("DEBIAN_FRONTEND=x apt install y", "apt install"),
        ("if ! pip3 install x; then exit 1; fi", "pip3 install"),
        ("python3 -m pip install -r /tests/requirements.txt", "python3 -m pip install"),
        ("uvx -p 3.13 pytest", "uvx"),
        ("uv run --with pytest pytest", "uv run"),
        ("npm ci", "npm ci"),
        ("curl -LsSf https://example.com/install.sh | sh", "curl example.com"),
        ("x=$(curl -s https://api.example.com/v1)", "curl api.example.com"),
        ("git clone git@example.com:a/b.git", "git clone example.com"),
    ],
)
def test_a_download_is_seen(line: str, command: str) -> None:
    assert [one.command for one in downloads(statements(line))] == [command]


@pytest.mark.parametrize(
    "line",
    [
        "curl http://localhost:8000/x",
        "curl http://127.0.0.1/x",
        "wget http://db:5432/",
        "curl $URL",
        "pip install --no-index --find-links /wheels x",
        "pip install /tests/pkg ./other",
        "pip list",
        "uv run pytest",
        "git clone /srv/repo.git",
        "echo 'run apt-get install git'",
        "apt list --installed",
        "grep 'curl https://example.com' /app/notes",
    ],
)
def test_what_stays_on_the_machine_is_no_download(line: str) -> None:
    assert downloads(statements(line)) == []


def test_a_download_whose_failure_is_swallowed_is_marked() -> None:
    assert downloads(statements("pip install x || true"))[0].may_fail
    assert not downloads(statements("pip install x || exit 1"))[0].may_fail


def test_only_hosts_beyond_the_machine_count() -> None:
    assert outside_host("http://localhost/ https://u:p@example.org:8443/x") == "example.org"
    assert outside_host("http://web/ http://10.0.0.1/ http://$H/ http://a.example/ http://[::1]/") is None
