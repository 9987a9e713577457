"""The evidence bundle of a run: a copy of the profile it was judged by, and checksums over everything in its folder.

It must not know what a profile or a report says. Checksums notice damage; who could change all files could change them
too, so a signature (`ssh-keygen -Y`, with the user's own key) is what ties a folder to a person.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof.profile import Profile

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
PROFILE = "profile"
INDEX = "index.json"
NAMESPACE = "gpuproof"
"""What a signature of ours is made for: `ssh-keygen -Y sign -n gpuproof`."""

_SIGN_WITHIN_S = 60


class BundleError(Exception):
    """What a bundle lacks, or why it could not be signed."""


@dataclass(frozen=True)
class Copied:
    """One file of the profile in the bundle, and the path it was read from."""

    file: Path
    path: str


def copy_profile(profile: Profile, directory: Path) -> None:
    """Copy the profile, all it extends and the files it names; a copy that is there already stays as it is."""
    folder = directory / PROFILE
    if (folder / INDEX).exists():
        return
    entries = []
    for number, path in enumerate(profile.files):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place / path.name)
        entries.append({"file": f"{number}/{path.name}", "path": str(path)})
    for limit in profile.limits:
        evidence = getattr(limit.provenance, "evidence", None)
        if evidence is not None:
            _copy_evidence(profile, folder, Path(limit.source_file), str(evidence))
    if profile.dataset is not None and profile.dataset.manifest:
        _copy_evidence(profile, folder, Path(profile.dataset.declared_in), profile.dataset.manifest)
    (folder / INDEX).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def _copy_evidence(profile: Profile, folder: Path, source: Path, evidence: str) -> None:
    place = (folder / str(profile.files.index(source)) / evidence).resolve()
    if folder.resolve() in place.parents:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.parent / evidence, place)


def copied_profile(directory: Path) -> list[Copied]:
    """The profile's files in the bundle, the base first; raises `BundleError`."""
    folder = directory / PROFILE
    try:
        entries = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        found = [Copied(folder / str(entry["file"]), str(entry["path"])) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{folder / INDEX} does not say which profile judged this run: {error}") from error
    outside = [copied for copied in found if folder.resolve() not in copied.file.resolve().parents]
    if outside or not found:
        raise BundleError(f"{folder / INDEX} names {'a file outside the bundle' if outside else 'no file'}")
    return found


def seal(directory: Path) -> str:
    """Write SHA256SUMS over every file of the folder and return its own digest, which a person can keep elsewhere."""
    text = "".join(f"{_digest(directory / name)}  {name}\n" for name in _files(directory))
    temporary = directory / f".{SUMS}.part"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(directory / SUMS)
    # A signature of what was there before says nothing about what is there now.
    (directory / SIGNATURE).unlink(missing_ok=True)
    return hashlib.sha256(text.encode()).hexdigest()


def reseal(directory: Path, rewritten: Collection[str]) -> bool:
    """
    Seal a folder again after its reports were written anew, where nothing but they had changed; False where something
    had: a new seal must not cover up what the old one would show.
    """
    if (directory / SUMS).is_file():
        names = [sentence.split(" ")[0] for sentence in altered(directory)]
        if any(name not in rewritten and name.split("/")[0] not in rewritten for name in names):
            return False
    seal(directory)
    return True


def altered(directory: Path) -> list[str]:
    """What differs from SHA256SUMS, in words: changed, missing and added files; empty where nothing does."""
    try:
        lines = (directory / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        return [f"{SUMS} cannot be read ({type(error).__name__}): nothing says which files belong to the bundle"]
    listed: dict[str, str] = {}
    said: list[str] = []
    for number, line in enumerate(lines, start=1):
        digest, blanks, name = line.partition("  ")
        if not blanks or len(digest) != 64 or name in listed:
            said.append(f"{SUMS}:{number} is no line of checksums: {line[:80]!r}")
        else:
            listed[name] = digest
    there = set(_files(directory))
    said += [f"{name} is missing" for name in listed if name not in there]
    said += [f"{name} was added after the bundle was sealed" for name in sorted(there - set(listed))]
    said += [f"{name} was changed" for name in sorted(there & set(listed)) if _digest(directory / name) != listed[name]]
    return said


def sign(directory: Path, key: Path) -> None:
    """Sign SHA256SUMS with the user's SSH key, a file or one that its agent holds; raises `BundleError`."""
    done = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(directory / SUMS)])
    if done.returncode != 0:
        raise BundleError(f"ssh-keygen did not sign with {key}: {done.stderr.strip() or done.stdout.strip()}")


def signed_by(directory: Path, allowed_signers: Path | None, identity: str | None) -> str:
    """Who signed, in words; raises `BundleError` where there is no signature, or one that does not hold."""
    signature = directory / SIGNATURE
    if not signature.is_file():
        raise BundleError(f"there is no {SIGNATURE}: nobody signed this bundle")
    arguments = ["-n", NAMESPACE, "-s", str(signature)]
    if allowed_signers is None or identity is None:
        arguments = ["-Y", "check-novalidate", *arguments]
    else:
        arguments = ["-Y", "verify", "-f", str(allowed_signers), "-I", identity, *arguments]
    done = _ssh_keygen(arguments, (directory / SUMS).read_bytes())
    if done.returncode != 0:
        raise BundleError(f"the signature does not hold: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def _ssh_keygen(arguments: Sequence[str], text: bytes = b"") -> subprocess.CompletedProcess[str]:
    command = shutil.which("ssh-keygen")
    if command is None:
        raise BundleError("signatures need ssh-keygen of OpenSSH 8.2 or newer on the PATH")
    try:
        done = subprocess.run(
            [command, *arguments], input=text, capture_output=True, timeout=_SIGN_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BundleError(f"ssh-keygen did not end within {_SIGN_WITHIN_S} s; load the key into an agent") from error
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def _files(directory: Path) -> Iterator[str]:
    """Every file below the folder but the checksums and their signature, by its relative path, sorted."""
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if (path.is_file() or path.is_symlink()) and name not in (SUMS, SIGNATURE):
            yield name


def _digest(path: Path) -> str:
    if path.is_symlink() or "\n" in path.name:
        return "0" * 64  # a link can show another file tomorrow: it has no checksum that holds
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
