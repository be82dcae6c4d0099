"""Secrets and personal data are found and replaced alike everywhere; ordinary words are left alone."""

from __future__ import annotations

import time

import pytest

from support.transcripts import transcript
from termarena.forge.screening import screen
from termarena.forge.screening.privacy import find_private
from termarena.forge.transcript import Facts

FAKE_AWS = "AKIA" + "ABCDEFGHIJKLMNOP"
FAKE_TOKEN = "ghp_" + "a1B2" * 9


def _found(text: str) -> set[tuple[str, str]]:
    return {(private.kind, private.value) for private in find_private(transcript(text))}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (f"export AWS_ACCESS_KEY_ID={FAKE_AWS}", "secret", FAKE_AWS),
        (f"git clone https://x:{FAKE_TOKEN}@example.org/r.git", "secret", FAKE_TOKEN),
        ("export DB_PASSWORD=hunter2hunter2", "secret", "hunter2hunter2"),
        ("app --password 'correct horse'", "secret", "correct horse"),
        ("mysql -u root -ps3cr3tpw shop", "secret", "s3cr3tpw"),
        ("sshpass -p s3cr3tpw ssh host", "secret", "s3cr3tpw"),
        ("curl -u ada:s3cr3tpw https://example.org", "secret", "s3cr3tpw"),
        ("psql postgres://ada:s3cr3tpw@db/shop", "secret", "s3cr3tpw"),
        ("export TOKEN=hunter2hunter2", "secret", "hunter2hunter2"),
        ("PASS=hunter2hunter2 make", "secret", "hunter2hunter2"),
        ("export DB_PWD='hunter2hunter2'", "secret", "hunter2hunter2"),
        ("echo token: hunter2hunter2 > a.yml", "secret", "hunter2hunter2"),
        ("zip -r -P s3cr3tpw a.zip src", "secret", "s3cr3tpw"),
        ("7z a -ps3cr3tpw a.7z src", "secret", "s3cr3tpw"),
        ("openssl enc -aes-256-cbc -pass pass:s3cr3tpw -in a", "secret", "s3cr3tpw"),
        ("openssl enc -d -k s3cr3tpw -in a", "secret", "s3cr3tpw"),
        ("htpasswd -cb users.txt ada s3cr3tpw", "secret", "s3cr3tpw"),
        ("htpasswd -nbB ada s3cr3tpw", "secret", "s3cr3tpw"),
        ("echo 'ada:s3cr3tpw' | sudo chpasswd", "secret", "s3cr3tpw"),
        ("echo alice@gmail.com", "email", "alice@gmail.com"),
        ("echo a.b@mail.uni-x.ac.uk", "email", "a.b@mail.uni-x.ac.uk"),
        ("ping 93.184.216.34", "address", "93.184.216.34"),
        ("echo call +49 151 2345 6789", "phone", "+49 151 2345 6789"),
        ("ls /home/alice/src", "user", "alice"),
        ("ls /Users/alice.smith/src", "user", "alice.smith"),
        ("ls -l\ndrwxr-xr-x. 10 alice.smith noc 4096 Feb 2 src", "user", "alice.smith"),
    ],
)
def test_private_values_are_found(text: str, kind: str, value: str) -> None:
    assert (kind, value) in _found(text)


@pytest.mark.parametrize(
    "text",
    [
        "ls -l\n-rw-r--r-- 1 www-data staff 12 Feb 2 index.html",
        "useradd -m carol\nls -l\n-rw-r--r-- 1 carol carol 12 Feb 2 notes",
        "mkdir -p build/output/deep",
        "docker run -p 8080:80 nginx",
        "idf.py -p /dev/ttyUSB0 flash",
        "ssh -p 2222 localhost",
        "cp -p source.txt target.txt",
        "ps -p 12345678",
        "tar -pxzf archive.tar.gz",
        "mysql -u root -p shop",
        "mysql --port 3306",
        "unzip -P",
        "zip -r a.zip src -x '*.pyc'",
        "echo $PWD; PWD=/srv/data; OLDPWD=/srv/other",
        "node -e 'Unexpected token: name'",
        "python3 -c 'token = next(lexer)'",
        "openssl dgst -sha256 -keyform PEM",
        "bypass=enabled compass=north make",
        "git clone git@github.com:example/repo.git",
        "git config user.email ada@example.org",
        "pip install package==1.2.3.4",
        "echo version 10.20.30.40",
        "ifconfig lo 127.0.0.1 netmask 255.255.255.0",
        "ping 10.0.0.1 && ping 192.168.1.1 && ping 0.0.0.0",
        "dig @8.8.8.8 example.org",
        "echo 300.400.500.600",
        "git log # Mon Jan 1 10:00:00 2024 +0200",
        "echo '@@ -10,8 +1234,8 @@'",
        "export PASSWORD=$SECRET",
        "echo password: ********",
        "read -s -p 'Password: ' answer",
        "passwd --help",
        "systemctl status user@1000.service",
    ],
)
def test_ordinary_words_raise_no_alarm(text: str) -> None:
    assert _found(text) == set()


@pytest.mark.parametrize("line", ["useradd " + "a" * 30_000 + "!", "useradd -m " * 3000])
def test_accounts_that_a_session_makes_are_looked_for_in_a_moment(line: str) -> None:
    began_s = time.process_time()
    assert ("user", "alice") in _found(f"{line}\n-rw-r--r-- 1 alice alice 4 Feb 2 src")
    assert time.process_time() - began_s < 3


def test_the_name_of_a_file_is_passed_on_without_names_of_people() -> None:
    found = transcript("ls /home/alice/src").model_copy(update={"source": "/home/alice/casts/alice-works.cast"})
    clean = screen(found).transcript
    assert clean is not None
    assert clean.source == "/home/user1/casts/user1-works.cast"


def test_one_value_has_one_placeholder_everywhere() -> None:
    found = transcript(
        ("cd /home/alice/src", ""),
        ("cat notes", "mail alice@gmail.com or bob@gmail.com\nalice@gmail.com again"),
        ("touch /home/alice/src/done", ""),
        title="How alice works",
        facts=Facts(shell="bash", user="alice", host="alices-laptop", home="/home/alice"),  # noqa: S604 - a name
    )
    screening = screen(found)
    clean = screening.transcript
    assert clean is not None
    assert "alice" not in clean.model_dump_json()
    assert "bob" not in clean.model_dump_json()
    assert clean.commands[0].text == "cd /home/user1/src"
    assert clean.commands[2].text == "touch /home/user1/src/done"
    first, again = clean.commands[1].output.splitlines()
    assert first.split()[1] == again.split()[0]
    assert first.split()[1] != first.split()[3]
    assert (clean.facts.user, clean.facts.home) == ("user1", "/home/user1")
    assert {redaction.kind for redaction in screening.redactions} >= {"user", "email"}
    assert "alice" not in screening.model_dump_json(exclude={"transcript"})


def test_a_secret_that_is_needed_refuses_the_recording_and_another_does_not() -> None:
    needed = screen(
        transcript("mkdir a", f"curl -H 'Authorization: token {FAKE_TOKEN}' https://example.org", "touch a/b")
    )
    assert "secret-needed" in {finding.rule for finding in needed.findings if finding.effect == "drop"}
    assert FAKE_TOKEN not in needed.model_dump_json()
    written = screen(
        transcript("mkdir a", "echo 'DB_PASSWORD=hunter2hunter2' > a/env", ("cat a/env", "x"), "touch a/b")
    )
    assert written.kept, written.reasons
    assert "hunter2" not in written.model_dump_json()


def test_a_host_called_like_a_word_does_not_change_other_words() -> None:
    found = transcript(
        ("for i in 1 2; do echo loop; done > loop.txt", "ada@loop:~$"), facts=Facts(user="ada", host="loop")
    )
    clean = screen(found).transcript
    assert clean is not None
    assert clean.commands[0].text == "for i in 1 2; do echo loop; done > loop.txt"
    assert clean.commands[0].output == "user1@host1:~$"


def test_every_machine_of_a_session_is_hidden_and_stays_another_machine() -> None:
    shown = "[ada@box1 ~]$ ssh db7.example-corp.io\nada@db7.example-corp.io:~$ sudo su -\n[root@db7 ~]# exit\n"
    screening = screen(transcript("ssh db7.example-corp.io", text=shown, facts=Facts(user="ada", host="box1")))
    assert "remote-host" in {finding.rule for finding in screening.findings}
    clean = screening.transcript
    assert clean is not None
    assert not {"ada", "box1", "db7"} & set(clean.text.replace("@", " ").replace(".", " ").split())
    assert "example-corp" not in clean.model_dump_json()
