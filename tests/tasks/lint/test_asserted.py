from __future__ import annotations

import pytest

from termarena.tasks.lint.asserted import looks_like_path, parse_python, python_candidates, python_paths, shell_paths
from termarena.tasks.lint.shell import statements


def _required(text: str, *known: str) -> list[tuple[str, int]]:
    tree = parse_python(text)
    assert tree is not None
    return [(one.path, one.line) for one in python_paths(tree, lambda path: path in known)]


@pytest.mark.parametrize(
    "text",
    [
        "open('/app/x.txt')",
        "Path('/app/x.txt').read_text()",
        "pathlib.Path('/app', 'x.txt').exists()",
        "assert os.path.isfile(os.path.join('/app', 'x.txt'))",
        "BASE = '/app'; open(BASE + '/x.txt')",
        "BASE = Path('/app'); OUT = BASE / 'x.txt'; OUT.stat()",
        "BASE = '/app'; open(f'{BASE}/x.txt')",
        "pd.read_csv('/app/x.txt')",
        "subprocess.run(['cat', '/app/x.txt'])",
        "json.loads(Path('/app/x.txt').read_text())",
        "for p in ['/app/x.txt']: check(p)",
        "assert not open('/app/other.txt').read() and Path('/app/x.txt').exists()",
        "if not Path('/app/x.txt').exists(): fail()",
    ],
)
def test_a_required_path_is_found_however_it_is_put_together(text: str) -> None:
    assert ("/app/x.txt", 1) in _required(text)


@pytest.mark.parametrize(
    "text",
    [
        "Path('/app/x.txt').write_text('')",
        "open('/app/x.txt', mode='w'); open('/app/x.txt')",
        "assert not Path('/app/x.txt').exists()",
        "if Path('/app/x.txt').exists(): read()",
        "assert exists('/app/x.txt') or exists('/app/y.txt')",
        "module.render(output='/app/x.txt'); open('/app/x.txt')",
        "subprocess.run(['python3', 'main.py', '/app/x.txt']); open('/app/x.txt')",
        "assert config['path'] == '/app/x.txt'",
        "print('/app/x.txt')",
        "open('/tests/x.txt'); open('/tmp/x.txt'); open('/usr/share/x.txt')",
        "open(f'/app/{name}.txt')",
    ],
)
def test_a_path_that_is_not_asked_of_the_agent_is_left_out(text: str) -> None:
    assert _required(text) == []


def test_an_alternative_to_a_known_path_is_left_out() -> None:
    text = "for p in ('/app/a.txt', '/app/b.txt'): open(p)"
    assert [path for path, _ in _required(text)] == ["/app/a.txt", "/app/b.txt"]
    assert [path for path, _ in _required(text, "/app/b.txt")] == ["/app/b.txt"]


def test_names_made_of_names_do_not_grow_without_end() -> None:
    lines = ["a0 = '/app/x'", *(f"a{n} = f'{{a{n - 1}}}{{a{n - 1}}}'" for n in range(1, 200)), "open(a199)"]
    assert _required("\n".join(lines)) == []


def test_the_quick_look_never_misses_what_the_syntax_tree_finds() -> None:
    text = "open('/app/a.txt'); Path('/app') / 'b.txt'; os.path.join('/app', 'c', 'd.txt'); X / 'e.txt'; X/f'{y}.csv'"
    assert set(python_candidates(text)) == {"/app/a.txt", "/app", "b.txt", "d.txt", "e.txt", "{y}.csv"}


@pytest.mark.parametrize("text", ["x = (", "x = '\0'", "(" * 5000, "-" * 100_000 + "1", "x" + ".y" * 50_000])
def test_text_that_is_no_python_has_no_paths(text: str) -> None:
    tree = parse_python(text)
    assert tree is None or python_paths(tree, lambda _: False) == []


def test_odd_escapes_are_no_warning() -> None:
    assert parse_python("x = '\\d'") is not None


def test_a_shell_script_asks_for_what_it_looks_at() -> None:
    script = (
        "[ -f /app/a ] || exit 1\ngrep -q x /app/b/c.txt && diff /app/d /tests/d\nmkdir /app/own\n"
        "cat /app/own >/app/log\ncat /app/log\n! test -e /app/gone\nif [ -s /app/maybe ]; then cat x; fi\n"
    )
    assert [(one.path, one.line) for one in shell_paths(statements(script))] == [
        ("/app/a", 1),
        ("/app/b/c.txt", 2),
        ("/app/d", 2),
    ]


def test_only_places_outside_the_system_look_like_paths() -> None:
    assert looks_like_path("/app/x-1.tar.gz")
    assert not any(map(looks_like_path, ["/", "/usr/bin/x", "/app/a b", "/app/*.txt", "app/x", "/etc/passwd"]))
