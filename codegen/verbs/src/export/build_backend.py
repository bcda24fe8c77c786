"""Builds the wheel: compiles the library with cargo, and packs it with the Python files. Needs only Python and cargo.

The functions without an underscore are those of a build backend by PEP 517 and PEP 660.
"""

import base64
import gzip
import hashlib
import io
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile

try:
    import tomllib
except ImportError:  # Python 3.10
    tomllib = None

HERE = pathlib.Path(__file__).parent


def _project():
    text = (HERE / "pyproject.toml").read_text()
    if tomllib:
        return tomllib.loads(text)["project"]
    lines = [line.split(" = ", 1) for line in text.split("[project]")[1].splitlines() if " = " in line]
    values = {key: value.strip('"') for key, value in lines}
    for key, value in values.items():
        if value[:1] in "[{" and key != "dependencies":
            raise SystemExit(f"pyproject.toml: `{key}` is read by Python 3.11 and later")
    return {**values, "dependencies": [values["dependencies"].strip('[]"')]}


def _library(name):
    """Compiles the library; returns its path."""
    # cargo forgets `strip` of a profile in which the package has settings of its own; the names of functions are a sixth
    command = ["cargo", "rustc", "--release", "--lib", "--", "-Cstrip=symbols"]
    if _glibc() >= (2, 36):
        # tables of addresses in a form that glibc reads since 2.36, which is a seventh as large
        command.append("-Clink-arg=-Wl,-z,pack-relative-relocs")
    subprocess.run(command, cwd=HERE, check=True)
    return HERE / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / f"lib{name}.so"


def _glibc():
    """The version of glibc on this machine, which is the least that the library needs; () where there is another libc."""
    name, version = platform.libc_ver()
    return tuple(int(n) for n in version.split(".")) if name == "glibc" else ()


def _tag():
    """The tag of the wheel: every Python, and machines like this one."""
    libc = "_".join(["manylinux", *(str(n) for n in _glibc())]) if _glibc() else "linux"
    return f"py3-none-{libc}_{platform.machine()}"


# The keys of `project` that become metadata.
_KEYS = {
    "authors", "classifiers", "dependencies", "description", "keywords", "license", "name", "readme", "requires-python",
    "urls", "version",
}


def _metadata(project):
    for key in project:
        if key not in _KEYS:
            known = ", ".join(sorted(_KEYS))
            raise SystemExit(f"pyproject.toml: `project` has `{key}`, and this backend knows {known} alone")
    version = "2.4" if "license" in project else "2.1"
    lines = [f"Metadata-Version: {version}", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    if "license" in project:
        if not isinstance(project["license"], str):
            raise SystemExit('pyproject.toml: `license` is a text such as "MIT OR Apache-2.0"')
        lines.append(f"License-Expression: {project['license']}")
    for author in project.get("authors", []):
        name, email = author.get("name"), author.get("email")
        if email:
            lines.append(f"Author-email: {name} <{email}>" if name else f"Author-email: {email}")
        elif name:
            lines.append(f"Author: {name}")
    if "keywords" in project:
        lines.append(f"Keywords: {','.join(project['keywords'])}")
    lines += [f"Classifier: {classifier}" for classifier in project.get("classifiers", [])]
    lines += [f"Project-URL: {label}, {url}" for label, url in project.get("urls", {}).items()]
    lines += [f"Requires-Dist: {needed}" for needed in project["dependencies"]]
    text = ""
    if "readme" in project:
        path = HERE / project["readme"]
        kind = {".md": "markdown", ".rst": "x-rst"}.get(path.suffix, "plain")
        lines.append(f"Description-Content-Type: text/{kind}; charset=UTF-8")
        text = "\n" + path.read_text(encoding="utf-8")
    return "\n".join(lines) + "\n" + text


def _wheel(folder, files):
    """Packs files, given by their paths in the wheel, with the metadata."""
    project = _project()
    name, version = project["name"], project["version"]
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": _metadata(project).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: fulgurite\nRoot-Is-Purelib: false\nTag: {_tag()}\n".encode(),
    }
    record = ""
    path = pathlib.Path(folder) / f"{name}-{version}-{_tag()}.whl"
    with zipfile.ZipFile(path, "w") as archive:

        def add(place, data):
            # a fixed date, so that equal files make equal wheels
            entry = zipfile.ZipInfo(place, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)

        for place, data in files.items():
            add(place, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{place},sha256={digest},{len(data)}\n"
        add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = _project()["name"]
    library = _library(name)
    files = {f"{name}/{path.name}": path.read_bytes() for path in sorted((HERE / name).iterdir()) if path.suffix in (".py", ".typed")}
    return _wheel(wheel_directory, {**files, f"{name}/{library.name}": library.read_bytes()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = _project()["name"]
    shutil.copy2(_library(name), HERE / name)
    return _wheel(wheel_directory, {f"{name}.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    """Packs the sources. With `path` in `Cargo.toml` they can be built on this machine alone."""
    project = _project()
    top = f"{project['name']}-{project['version']}"
    path = pathlib.Path(sdist_directory) / f"{top}.tar.gz"
    made = {"target", "dist", "build", "__pycache__"}
    files = {"PKG-INFO": _metadata(project).encode()}
    for file in sorted(HERE.rglob("*")):
        place = file.relative_to(HERE)
        hidden = any(part in made or part.startswith(".") for part in place.parts)
        if file.is_file() and not hidden and file.suffix not in (".so", ".gz"):
            files[place.as_posix()] = file.read_bytes()
    # without dates, so that equal files make equal archives
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for place, data in files.items():
            entry = tarfile.TarInfo(f"{top}/{place}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return path.name


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


if __name__ == "__main__":
    os.makedirs(HERE / "dist", exist_ok=True)
    print(HERE / "dist" / build_wheel(HERE / "dist"), file=sys.stdout)
