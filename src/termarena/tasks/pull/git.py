"""Git repositories: one commit, without history, and of its files only those below the wanted folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from termarena.tasks.load import is_task
from termarena.tasks.pull.contract import PullError
from termarena.tasks.pull.git_command import Git
from termarena.tasks.pull.source import is_commit
from termarena.tasks.pull.trees import files_below, is_real_folder, remove

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from termarena.tasks.pull.contract import Bench, Plan
    from termarena.tasks.pull.source import Source

__all__ = ["GitFetcher", "Repository", "check_pointers"]

_SHORT_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_EVERYTHING = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
# What is in the repository is what we want: no line endings, keywords, encodings or filters applied on the way.
_ATTRIBUTES = "* -text -ident !eol !filter !working-tree-encoding\n"
_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_LIMIT_BYTES = 1024
_SHOWN = 10
_DUMB = "dumb http transport"
_HOPELESS = ("network", "unauthorised", "disk-full", "no-git")


@dataclass(frozen=True, slots=True)
class GitFetcher:
    """A git repository as a dataset."""

    source: Source

    def resolve(self, bench: Bench) -> str:
        """The commit that the requested branch, tag or commit is."""
        return self._repository(bench).resolve(self.source.revision)

    def fetch(self, revision: str, into: Path, bench: Bench) -> tuple[str, ...]:
        """Check out the wanted folders of the commit and move them below `into`."""
        repository = self._repository(bench)
        folder = self.source.folder
        tasks = () if self.source.known is None else self.source.known.tasks
        repository.get(revision, self.source.revision)
        if tasks:
            paths = {f"{folder}/{task}" if folder else task: task for task in tasks}
            repository.check_out(revision, list(paths))
            for path, task in paths.items():
                repository.take(path, into / task)
        else:
            repository.check_out(revision, [folder] if folder else [])
            repository.take_all(folder, into)
        return check_pointers(into, self.source.plan())

    def _repository(self, bench: Bench) -> Repository:
        return Repository(bench.work / "git", self.source.address, self.source.plan(), bench)


@dataclass(frozen=True, slots=True)
class Repository:
    """Our own partial clone of a repository, kept between an interrupted pull and the next."""

    path: Path
    address: str
    plan: Plan
    bench: Bench

    def resolve(self, revision: str | None) -> str:
        """The commit that a branch, a tag, a commit's id or its beginning stands for; a tag before a branch.

        Raises PullError, with the reason `not-found` if the repository has nothing of that name.
        """
        if revision is not None and is_commit(revision):
            return revision
        git = self._git()
        names = ["HEAD"] if revision is None else [f"refs/tags/{revision}", f"refs/heads/{revision}", revision]
        listing = git.run("ls-remote", "origin", *(n for name in names for n in (name, f"{name}^{{}}")))
        found = {name: commit for commit, _, name in (line.partition("\t") for line in listing.splitlines())}
        for name in names:
            commit = found.get(f"{name}^{{}}") or found.get(name)
            if commit:
                return commit
        if revision is not None and _SHORT_COMMIT.fullmatch(revision):
            return self._resolve_short(git, revision)
        problem = f"it has no branch or tag {revision}" if revision else "it has no commits"
        raise PullError(self.plan, "not-found", problem)

    def _resolve_short(self, git: Git, revision: str) -> str:
        self._fetch_alone(git, ["HEAD"], revision)
        self._fetch_everything(git)
        try:
            return git.run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
        except PullError as error:
            raise PullError(self.plan, "not-found", f"it has no branch, tag or commit {revision}") from error

    def get(self, commit: str, revision: str | None) -> None:
        """Fetch a commit with its folders, leaving out what its files hold where the server can.

        Servers differ: some give no single commit, some no shallow one, and plain HTTP gives only everything. Each way
        is tried, the shortest first. Raises PullError.
        """
        git = self._git()
        mark = self.path / ".git" / f"termarena-has-{commit}"
        if mark.exists():
            return
        names = [] if revision in (None, commit) else [f"refs/tags/{revision}", f"refs/heads/{revision}"]
        if not self._fetch_alone(git, [commit, *names], commit):
            self._fetch_everything(git)
            # Listed, not looked up: git would go and fetch what it is asked for and does not have.
            if commit not in git.run("rev-list", "--all").split():
                raise PullError(self.plan, "not-found", f"it has no commit {commit}")
        mark.touch()

    def check_out(self, commit: str, folders: Sequence[str]) -> None:
        """Write these folders of the commit, or with none given all of it, into our working folder."""
        git = self._git()
        listing = git.run("ls-tree", "-z", "-d", commit, "--", *folders).split("\0") if folders else []
        present = {path for kind, _, path in (line.partition("\t") for line in listing) if " tree " in kind}
        missing = [folder for folder in folders if folder not in present]
        if missing:
            names = git.run("ls-tree", "-z", "-d", "--name-only", commit).split("\0")[:-1]
            problem = f"commit {commit[:12]} has no folder {_few(missing)}"
            raise PullError(self.plan, "not-found", problem, hint=f"its folders are: {_few(names)}")
        if folders:
            git.run("sparse-checkout", "set", "--cone", "--stdin", given="".join(f"{folder}\n" for folder in folders))
        else:
            git.run("sparse-checkout", "disable")
        git.run("checkout", "--force", "--progress", "--detach", commit)

    def take(self, folder: str, into: Path) -> None:
        """Move a folder that was checked out to `into`, in place of what may be there."""
        if not is_real_folder(self.path, folder):
            raise PullError(self.plan, "unsafe", f"{folder} is not a folder in it but a link")
        remove(into)
        into.parent.mkdir(parents=True, exist_ok=True)
        (self.path / folder).rename(into)

    def take_all(self, folder: str, into: Path) -> None:
        """Move everything in a folder, empty for all of the repository, into `into`."""
        if not is_real_folder(self.path, folder):
            raise PullError(self.plan, "unsafe", f"{folder} is not a folder in it but a link")
        for entry in list((self.path / folder).iterdir()):
            if folder or entry.name != ".git":
                remove(into / entry.name)
                entry.rename(into / entry.name)

    def _git(self) -> Git:
        """Git in our repository, which is made if it is not there and freed of what a killed git left locked."""
        self.path.mkdir(parents=True, exist_ok=True)
        git = Git(self.path, self.address, self.plan, self.bench)
        inside = self.path / ".git"
        if not (inside / "info" / "attributes").exists():
            git.run("init", "--quiet", "--template=", ".")
            (inside / "info").mkdir(exist_ok=True)
            (inside / "info" / "attributes").write_text(_ATTRIBUTES, encoding="ascii")
        for lock in [*inside.glob("*.lock"), *inside.glob("info/*.lock")]:
            lock.unlink()
        return git

    def _fetch_alone(self, git: Git, names: Sequence[str], commit: str) -> bool:
        """Try to fetch just the commit, under each of these names; False if the server gives it under none."""
        for name in names:
            try:
                git.run("fetch", "--progress", "--no-tags", "--depth=1", "--filter=blob:none", "origin", name)
            except PullError as error:
                if error.reason in _HOPELESS:
                    raise
                if _DUMB in error.message:
                    # git 2.39 notes the filter all the same, and then asks for missing objects for ever.
                    remove(self.path)
                    self._git()
                    self._plain.touch()
                    return False
                continue
            if git.run("rev-parse", "FETCH_HEAD^{commit}").strip() == commit:
                return True
        return False

    def _fetch_everything(self, git: Git) -> None:
        partial = [] if self._plain.exists() else ["--filter=blob:none"]
        unshallow = ["--unshallow"] if (self.path / ".git" / "shallow").exists() else []
        git.run("fetch", "--progress", "--no-tags", *partial, *unshallow, "origin", *_EVERYTHING)

    @property
    def _plain(self) -> Path:
        """The mark that the server is a file server, which knows nothing of filters."""
        return self.path / ".git" / "termarena-plain"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def check_pointers(folder: Path, plan: Plan) -> tuple[str, ...]:
    """Look for files that Git LFS keeps elsewhere: a note for those beside the tasks.

    Raises PullError if one is part of a task, which could not work without it.
    """
    pointers = [file for file in files_below(folder) if _is_pointer(file)]
    vital = [file for file in pointers if any(is_task(above) for above in _above(file, folder))]
    if vital:
        names = sorted(str(file.relative_to(folder)) for file in vital)
        raise PullError(
            plan,
            "lfs",
            f"{len(names)} files of its tasks are Git LFS pointers without their content: {_few(names)}",
            hint="clone it with git-lfs and pass the folder; a Hugging Face dataset comes whole as hf:org/name",
        )
    return (f"{len(pointers)} files beside the tasks are Git LFS pointers without their content",) if pointers else ()


def _is_pointer(file: Path) -> bool:
    if file.is_symlink() or file.lstat().st_size > _POINTER_LIMIT_BYTES:
        return False
    with file.open("rb") as opened:
        return opened.read(len(_POINTER)) == _POINTER


def _above(file: Path, folder: Path) -> list[Path]:
    return [parent for parent in file.parents if parent == folder or folder in parent.parents]
